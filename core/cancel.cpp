// See cancel.h.
#include "gossamer/core/cancel.h"

#include <utility>

namespace gossamer {
namespace {

thread_local const std::atomic<bool>* current = nullptr;

}  // namespace

CancelScope::CancelScope(const std::atomic<bool>& flag) : outer_(std::exchange(current, &flag)) {}
CancelScope::~CancelScope() { current = outer_; }

void check_cancelled() {
  if (current && current->load(std::memory_order_relaxed)) [[unlikely]]
    throw Cancelled("cancelled by another thread");
}

}  // namespace gossamer
