// The handlers only set a flag; see stop.h.
#include "gossamer/apps/launch/stop.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>

#include <unistd.h>

namespace gossamer::apps {
namespace {

// Two signals may run the handler in two threads, and any thread asks for stop_signal(). Atomics
// without a lock are allowed in a handler.
std::atomic<int> signal_seen{0}, at_once{0}, answered{0};
std::atomic<std::int64_t> first_seen_ns{0};  // written before signal_seen
static_assert(std::atomic<int>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);
pid_t parent = 0;

extern "C" void on_stop(int number) {
  const bool closed_terminal = number == SIGHUP;
  if (closed_terminal) number = SIGTERM;
  if (at_once != 0) _exit(128 + number);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t now_ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  if (signal_seen == 0) {
    first_seen_ns = now_ns;
    signal_seen = number;
    const int error = errno;  // of the code that this handler interrupts
    if (answered != 0 && write(STDERR_FILENO, kStoppingText, sizeof kStoppingText - 1) < 0)
      errno = error;  // without the line it stops as well
  } else if (!closed_terminal && 1e-9 * static_cast<double>(now_ns - first_seen_ns) > kSameStop_s) {
    if (write(STDERR_FILENO, kKilledText, sizeof kKilledText - 1) < 0) _exit(kKilled);
    _exit(kKilled);
  }
}

}  // namespace

void install_stop_handlers() {
  at_once = 1;
  struct sigaction action {};
  action.sa_handler = on_stop;
  action.sa_flags = SA_RESTART;  // all waits have deadlines
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

void survive_failed_writes() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

void stop_after_step(bool told) {
  answered = told;
  at_once = 0;
}

// PR_SET_PDEATHSIG would watch the thread that started us, which may end long before its process.
void stop_when_orphaned() { parent = getppid(); }

int stop_signal() {
  if (parent != 0 && signal_seen == 0 && getppid() != parent) signal_seen = SIGTERM;
  return signal_seen;
}

}  // namespace gossamer::apps
