// Tensors as handles of gossamer.h.
#pragma once

#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "gossamer/apps/capi/objects.h"
#include "gossamer/core/tensor.h"

namespace gossamer::capi {

class Held final : public Object {
 public:
  explicit Held(Tensor t) : tensor(std::move(t)) {}
  const Tensor tensor;
  // The parameters that it belongs to, whose calls may move its numbers. Changes in exclusive use.
  std::weak_ptr<Object> set;
};
// A new handle, noted in this thread's scope.
gsm_tensor* hold(Tensor);

// Two calls at once may read a set, or one changes it. BusyError.
std::shared_lock<std::shared_mutex> reading(const std::shared_ptr<Object>& set);

// A tensor for the time of a call that leaves its memory where it is. HandleError, BusyError.
class Reading {
 public:
  explicit Reading(const gsm_tensor* tensor)
      : held_(tensor), set_(held_->set.lock()), lock_(reading(set_)) {}
  const Tensor& operator*() const { return held_->tensor; }
  const Tensor* operator->() const { return &held_->tensor; }

 private:
  Shared<Held> held_;
  std::shared_ptr<Object> set_;
  std::shared_lock<std::shared_mutex> lock_;
};
// The same, but NULL is an undefined tensor.
class ReadingOrNone {
 public:
  explicit ReadingOrNone(const gsm_tensor* tensor) {
    if (tensor) reading_.emplace(tensor);
  }
  Tensor operator*() const { return reading_ ? **reading_ : Tensor(); }

 private:
  std::optional<Reading> reading_;
};

DType type_of(gsm_dtype);  // ArgumentError: there is none
Shape shape_of(const int64_t* sizes, int rank);
// One extent may be -1.
Shape open_shape_of(const int64_t* sizes, int rank);

// ArgumentError: the tensor has more bytes, or fewer.
void check_bytes(const Tensor&, std::size_t bytes);

// The gradients that a call writes or reads, and the tape that it walks. BusyError if another
// thread has one of them.
class Gradients {
 public:
  explicit Gradients(std::vector<const void*> theirs);
  ~Gradients();
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

 private:
  std::vector<const void*> theirs_;  // slots and nodes
};

}  // namespace gossamer::capi
