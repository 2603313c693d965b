// Workers in processes of their own, which write to a pipe.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

namespace gossamer {

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
