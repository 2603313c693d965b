// Waits on sockets that another thread can end. Private to dist/.
#pragma once

#include <atomic>
#include <chrono>
#include <span>

#include <poll.h>

namespace gossamer::dist {

class StopSignal {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  StopSignal();  // DistError when no descriptor is left
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;

  void raise();                       // any thread, for good: all waits, now and later, throw
  void check() const;                 // DistError once raised
  void check(TimePoint until) const;  // the same, and DistTimeout from `until` on
  // poll() until one of these has an event. DistError once raised, DistTimeout at `until`.
  void poll(std::span<const pollfd>, TimePoint until) const;

 private:
  const int fd_;
  std::atomic<bool> raised_{false};
};

}  // namespace gossamer::dist
