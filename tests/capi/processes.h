// Workers in processes of their own, which write to a pipe.
#pragma once

#include <cstdio>

#include <gtest/gtest.h>
#include <unistd.h>

#include "gossamer/apps/capi/gossamer.h"

namespace gossamer {

// The exit statuses of workers: what went wrong, in order of their values.
enum Exit { kWell = 0, kError = 1, kStart = 2, kSignals = 3 };

inline bool ok(gsm_status status) {
  if (status != GSM_OK) fprintf(stderr, "%s\n", gsm_last_error());
  return status == GSM_OK;
}

// Makes this process worker `rank` of three.
inline bool join_three(int rank, int port, bool restarted, gsm_group** group) {
  gsm_join_options join{};
  join.struct_size = sizeof join;
  join.rank = rank;
  join.size = 3;
  join.host = "127.0.0.1";
  join.port = port;
  join.token = "00112233445566778899aabbccddeeff";
  join.dead_after_s = 60;  // not for want of a core; a killed one closes its connections
  join.restarted = restarted;
  return ok(gsm_group_join_with(&join, group));
}

struct Process {
  pid_t id;
  int in;  // what it writes
};

// work: gets the end of a pipe to write to, and returns the exit status.
template <class Work>
Process start_process(Work&& work) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t id = fork();
  if (id == 0) {
    close(ends[0]);
    alarm(120);  // whatever happens, it ends
    _exit(work(ends[1]));
  }
  close(ends[1]);
  return {id, ends[0]};
}

}  // namespace gossamer
