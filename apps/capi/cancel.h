// How calls that can last are ended by another thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "gossamer/apps/capi/objects.h"
#include "gossamer/core/cancel.h"

namespace gossamer::capi {

class Cancel final : public Object {
 public:
  void set(bool on);
  const std::atomic<bool>& flag() const { return flag_; }
  // Waits until test() holds, or it is set. Who makes test() true calls changed().
  bool wait(const std::function<bool()>& test);
  void changed();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> flag_ = false;
};

// That of the calling thread; null: it has none.
const std::shared_ptr<Cancel>& own_cancel();

// For the computing part of a call: kernels of this thread look at its flag while one lives.
class Computing {
 public:
  Computing() {
    if (!own_cancel()) return;
    scope_.emplace(own_cancel()->flag());
    check_cancelled();
  }

 private:
  std::optional<CancelScope> scope_;
};

// As guarded(), for a body that computes: its kernels end when the thread's cancel is set.
template <class F>
gsm_status computed(F&& body) noexcept {
  return guarded([&] {
    const Computing computing;
    body();
  });
}

// Runs f, which waits for others, so that the caller can leave it: then f goes on by itself until
// its deadline, in a thread of its own, and what it gives is dropped. So f uses no memory of the
// caller's, and takes hold of handles itself. What f throws is thrown.
void run_waiting(std::function<void()> f);
// left: becomes true, for good, when the caller has left f.
void run_until_left(std::function<void(const std::atomic<bool>& left)> f);
template <class T>
T waiting(std::function<T()> f) {
  auto result = std::make_shared<std::optional<T>>();
  run_waiting([result, f = std::move(f)] { result->emplace(f()); });
  return std::move(**result);
}
// How many of them run in threads of their own.
int waiting_calls();

}  // namespace gossamer::capi
