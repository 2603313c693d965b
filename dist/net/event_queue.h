// Events on their way to the one thread that calls ControlLink::next(). Private to dist/.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class EventQueue {
 public:
  void push(Event e) {
    {
      std::lock_guard lock(mutex_);
      events_.push_back(std::move(e));
    }
    filled_.notify_one();
  }

  Event pop(Seconds timeout) {
    std::unique_lock lock(mutex_);
    if (!filled_.wait_for(lock, std::min(timeout, Seconds(3600)),
                          [this] { return !events_.empty(); }))
      return {};
    Event e = std::move(events_.front());
    events_.pop_front();
    return e;
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Event> events_;
};

}  // namespace gossamer::dist
