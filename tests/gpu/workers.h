// Workers as processes of this program, several of them on one GPU: starts a hidden test
// (DISABLED_…) once for each rank and collects how it ended. Each has an NCCL_HOSTID of its own, so
// that NCCL takes them for different machines.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/free_port.h"

extern char** environ;

namespace gossamer::testing {

inline std::string variable(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

// NAME=VALUE in an environment, in place of the value that it has there: getenv finds the first of
// a name.
inline void put(std::vector<std::string>& environment, const std::string& v) {
  const std::string name = v.substr(0, v.find('=') + 1);
  std::erase_if(environment, [&](const std::string& e) { return e.starts_with(name); });
  environment.push_back(v);
}

// Exit codes by rank; 128 + the number of the signal that ended one. A worker that has not ended
// after limit_s is killed.
inline std::vector<int> run_workers(int n, const std::string& hidden_test,
                                    const std::vector<std::string>& more = {},
                                    double limit_s = 150) {
  const std::string port = std::to_string(free_port());
  std::vector<pid_t> pids;
  for (int rank = 0; rank < n; ++rank) {
    std::vector<std::string> variables;
    for (char** e = environ; *e; ++e) variables.emplace_back(*e);
    const std::string r = std::to_string(rank);
    for (const std::string& v :
         {"GOSSAMER_RANK=" + r, "GOSSAMER_WORLD=" + std::to_string(n),
          "GOSSAMER_RENDEZVOUS=127.0.0.1:" + port, "NCCL_HOSTID=worker-" + r})
      put(variables, v);
    for (const char* v : {"NCCL_SOCKET_IFNAME=lo", "NCCL_IB_DISABLE=1", "NCCL_NVLS_ENABLE=0",
                          "NCCL_RAS_ENABLE=0", "NCCL_MNNVL_ENABLE=0"})
      put(variables, v);
    for (const std::string& v : more) put(variables, v);
    std::vector<char*> environment, arguments;
    for (std::string& v : variables) environment.push_back(v.data());
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=" + hidden_test,
                also = "--gtest_also_run_disabled_tests", brief = "--gtest_brief=1";
    for (std::string* a : {&program, &filter, &also, &brief}) arguments.push_back(a->data());
    arguments.push_back(nullptr);
    pid_t pid = -1;
    EXPECT_EQ(
        posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments.data(), environment.data()),
        0);
    pids.push_back(pid);
  }
  std::vector<int> codes;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  for (const pid_t pid : pids) {
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > limit) kill(pid, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return codes;
}

}  // namespace gossamer::testing
