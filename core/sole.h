// Whether memory that is shared by counting has one owner left.
// Threads: any.
#pragma once

#include <atomic>
#include <memory>

namespace gossamer {

// Nobody else owns it, so this thread may write to it. What the owners before did with it has
// happened: shared_ptr's count is read without any order, and a CPU as ARM's might read here what
// the last of them had not written yet.
template <class T>
bool sole_owner(const std::shared_ptr<T>& owner) {
  if (owner.use_count() != 1) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}

}  // namespace gossamer
