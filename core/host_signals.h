// Signals are for the host's threads: no thread of the libraries runs a handler of the program that
// uses them.
// Threads: any; for the calling thread.
#pragma once

#include <thread>
#include <utility>

#include <pthread.h>
#include <signal.h>

namespace gossamer {

// Threads that are started while one of these lives block signals. Those that a thread raises by
// its own mistake are left: a blocked SIGSEGV would end the process without the host's handler.
class HostSignals {
 public:
  HostSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
      sigdelset(&blocked, own);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~HostSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HostSignals(const HostSignals&) = delete;
  HostSignals& operator=(const HostSignals&) = delete;

 private:
  sigset_t before_;
};

template <class F>
std::thread start_thread(F&& body) {
  const HostSignals blocked;
  return std::thread(std::forward<F>(body));
}

}  // namespace gossamer
