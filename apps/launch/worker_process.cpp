// See worker_process.h.
#include "gossamer/apps/launch/worker_process.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

#include "gossamer/apps/launch/process.h"

namespace gossamer::apps {

int run_wrapped(const std::vector<std::string>& arguments) {
  SignalInbox signals;
  Child child{.self = true, .arguments = {"gossamer"}, .environment = {}, .keep = {}};
  child.arguments.insert(child.arguments.end(), arguments.begin(), arguments.end());
  const pid_t pid = spawn(child);
  const pid_t launcher = getppid();
  bool told_to_stop = false;
  for (;;) {
    wait_for({signals.descriptor()}, {}, 1);
    // If the launcher was killed, nothing else would stop the worker.
    if (!told_to_stop && getppid() != launcher) {
      told_to_stop = true;
      kill(pid, SIGTERM);
    }
    while (const auto number = signals.next()) {
      if (*number == SIGCHLD || (*number == SIGHUP && told_to_stop)) continue;
      told_to_stop = true;
      kill(pid, *number == SIGHUP ? SIGTERM : *number);
    }
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) != pid) continue;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (told_to_stop) return 128 + WTERMSIG(status);
    // After any other code than 0, mpirun and hydra would kill the other workers.
    std::fprintf(stderr, "gossamer: the worker died (signal %d); the other workers go on\n",
                 WTERMSIG(status));
    return 0;
  }
}

void report_ready() {
  const char* const text = std::getenv("GOSSAMER_STATUS");
  if (text == nullptr || *text == '\0') return;
  const int fd = std::atoi(text);
  unsetenv("GOSSAMER_STATUS");
  if (fd <= 2) return;
  if (write(fd, "ready\n", 6) < 0)
    std::fprintf(stderr, "gossamer: cannot tell the launcher that this worker is ready: %s\n",
                 std::strerror(errno));
  close(fd);
}

}  // namespace gossamer::apps
