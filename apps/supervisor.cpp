// The launcher behind --workers N, and `gossamer run`.
#include "gossamer/apps/supervisor.h"

#include <arpa/inet.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gossamer/apps/commands.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

// A port that was free a moment ago: the kernel picks it, worker 0 binds it again.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool ok = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  check<DistError>(ok, "no free port on 127.0.0.1: ", std::strerror(error));
  return ntohs(address.sin_port);
}

std::string random_token() {
  unsigned char bytes[16];
  check<DistError>(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, "the system gives no random numbers: ", std::strerror(errno));
  std::string token;
  for (const unsigned char b : bytes) {
    token += "0123456789abcdef"[b >> 4];
    token += "0123456789abcdef"[b & 15];
  }
  return token;
}

// Signals that the parent waits for instead of being interrupted by.
class WaitedSignals {
 public:
  WaitedSignals() {
    sigemptyset(&set_);
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set_, s);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~WaitedSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int wait() const {
    int number = 0;
    sigwait(&set_, &number);
    return number;
  }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t set_{}, before_{};
};

pid_t start_child(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment, const WaitedSignals& signals) {
  std::vector<char*> argv{const_cast<char*>("gossamer")};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  check<DistError>(pid >= 0, "cannot start a worker process: ", std::strerror(errno));
  if (pid > 0) return pid;
  // The child. Its own process group: a terminal's Ctrl-C then reaches it once, through the launcher.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);                     // the launcher died before the line above
  sigprocmask(SIG_SETMASK, &signals.before(), nullptr);
  for (const auto& [key, value] : environment) setenv(key.c_str(), value.c_str(), 1);
  execv("/proc/self/exe", argv.data());
  std::fprintf(stderr, "gossamer: cannot start myself again: %s\n", std::strerror(errno));
  _exit(127);
}

}  // namespace

int supervise(int workers, const std::vector<std::string>& arguments) {
  const WaitedSignals signals;
  std::map<std::string, std::string> environment{{"GOSSAMER_WORLD", std::to_string(workers)},
                                                 {"GOSSAMER_RENDEZVOUS", "127.0.0.1:" + std::to_string(free_port())},
                                                 {"GOSSAMER_TOKEN", random_token()}};
  // Workers share the cores: waiting OpenMP threads that spin take them from those that work (20 times slower, measured).
  if (workers > 1 && !std::getenv("OMP_WAIT_POLICY") && !std::getenv("GOMP_SPINCOUNT")) environment["OMP_WAIT_POLICY"] = "passive";
  std::map<pid_t, int> running;                          // process -> rank
  for (int rank = 0; rank < workers; ++rank) {
    environment["GOSSAMER_RANK"] = std::to_string(rank);
    running[start_child(arguments, environment, signals)] = rank;
  }
  const auto tell_all = [&](int number) {
    for (const auto& [pid, rank] : running) kill(pid, number);
  };
  int finished = 0, error = 0, stopped_by = 0;
  bool stopping = false;
  while (!running.empty()) {
    const int number = signals.wait();
    if (number != SIGCHLD) {
      tell_all(stopped_by ? SIGKILL : number == SIGHUP ? SIGTERM : number);
      if (!stopped_by) std::fprintf(stderr, "gossamer: stopping %d workers (once more: at once)\n", static_cast<int>(running.size()));
      stopped_by = number;
      continue;
    }
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto it = running.find(pid);
      if (it == running.end()) continue;
      const int rank = it->second;
      running.erase(it);
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      if (WIFEXITED(status) && code == 0) ++finished;
      // 5: it lost the others, who may well finish. Above 128: someone stopped this one alone, a death as planned.
      const bool serious = code != 0 && code != 5 && code < 128;
      if (serious && error == 0) error = code;
      if (stopped_by || stopping) continue;
      if (WIFSIGNALED(status))
        std::fprintf(stderr, "gossamer: worker %d died (signal %d); %d still running\n", rank, WTERMSIG(status), static_cast<int>(running.size()));
      else if (code != 0)
        std::fprintf(stderr, "gossamer: worker %d stopped with exit code %d; %d still running\n", rank, code, static_cast<int>(running.size()));
      if (WIFEXITED(status) && code == 3) {              // data that may not be used stops the run, not one worker
        stopping = true;
        tell_all(SIGTERM);
      }
    }
  }
  if (stopped_by) return 128 + (stopped_by == SIGHUP ? SIGTERM : stopped_by);
  if (error) return error;
  return finished > 0 ? 0 : 5;
}

int run_wrapped(const std::vector<std::string>& arguments) {
  const WaitedSignals signals;
  const pid_t child = start_child(arguments, {}, signals);
  for (;;) {
    const int number = signals.wait();
    if (number != SIGCHLD) {
      kill(child, number == SIGHUP ? SIGTERM : number);
      continue;
    }
    int status = 0;
    if (waitpid(child, &status, WNOHANG) != child) continue;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    // Exit 0: mpirun and hydra would kill the other workers for anything else.
    std::fprintf(stderr, "gossamer: the worker died (signal %d); its siblings go on\n", WTERMSIG(status));
    return 0;
  }
}

}  // namespace gossamer::apps
