// For tests of the process transport: groups on threads of this process, and worker processes (this
// binary again, in a role).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/dist/net/process_group.h"
#include "support/free_port.h"

namespace gossamer::dist::testing {

using gossamer::testing::free_port;
int listener(int* port);  // a socket that listens on the loopback
JoinOptions quick();      // 20 s to meet, 10 s for a collective
constexpr const char* kToken = "00112233445566778899aabbccddeeff";
LaunchInfo place(int rank, int size, int port);  // with this token

// Starts `size` groups at once, each on its own thread, and gives them to `body`; all have ended
// when it returns. The first exception of a rank, if any, is in the result.
std::vector<std::string> on_threads(int size, const std::function<void(Group&)>& body,
                                    const JoinOptions& = quick());

// A child process that runs the role of this name (see role()); what it says comes back line by
// line. The LaunchInfo's listener is handed on. network: of which network namespace ("ip netns") it
// lives in; empty: ours.
class Worker {
 public:
  Worker(const std::string& role, const LaunchInfo&, const std::string& network = "");
  ~Worker();  // SIGKILL and wait
  void signal(int);
  std::string line(double seconds = 30);  // next line; "" at its end or when time is up
  int wait();                             // exit code; 256 + signal
  int pid() const { return pid_; }

 private:
  int pid_ = -1, pipe_ = -1;
  std::string buffer_;
};

using Role = void (*)(const LaunchInfo&, const std::function<void(const std::string&)>& say);
struct RegisterRole {
  RegisterRole(const char* name, Role);
};

double now_s();

}  // namespace gossamer::dist::testing
