// CPU threads: parallel_for for kernels, a bounded queue for pipelines.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "gossamer/core/dtype.h"

namespace gossamer {

// Threads a kernel of the calling thread may use, the caller included (OpenMP's pool, shared with
// oneDNN). n >= 1.
void set_compute_threads(int n);
int compute_threads();

// A borrowed callable: valid only during the call it is passed to.
template <class>
class FunctionRef;
template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // NOLINT(google-explicit-constructor): a parameter type
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* o, A... a) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(o))(std::forward<A>(a)...);
        }) {}
  R operator()(A... a) const { return call_(object_, std::forward<A>(a)...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

// Runs body(begin, end) over disjoint pieces of [0, n), at least `grain` long, on compute_threads()
// threads. The split depends on n, grain and the thread count only. An exception of a piece is
// rethrown here.
void parallel_for(i64 n, i64 grain, FunctionRef<void(i64, i64)> body);

// First in, first out, at most `capacity` items; close() wakes everyone: push then returns false,
// pop drains and returns nothing.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}
  bool push(T item) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return closed_ || items_.size() < capacity_; });
    if (closed_) return false;
    items_.push_back(std::move(item));
    some_.notify_one();
    return true;
  }
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    some_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return take();
  }
  std::optional<T> try_pop() {
    std::unique_lock lock(mutex_);
    return take();
  }
  void close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    some_.notify_all();
    room_.notify_all();
  }
  std::size_t size() const {
    const std::scoped_lock lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> take() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    room_.notify_one();
    return item;
  }
  mutable std::mutex mutex_;
  std::condition_variable some_, room_;
  std::deque<T> items_;
  std::size_t capacity_;
  bool closed_ = false;
};

}  // namespace gossamer
