// Tensor: the value type of Gossamer. A window (shape, offset) on a shared block: always dense,
// last index fastest. Images are [N, H, W, C]. Copying a Tensor copies the handle: both see the
// same window and the same gradient.
// Threads: any for different Tensors, one at a time for one. While one writes to a block, nobody
// else may use a window on the same memory.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/device.h"
#include "gossamer/core/dtype.h"
#include "gossamer/core/error.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/shape.h"

namespace gossamer {

struct Slot;  // where a gradient is accumulated (autograd.h)

class Tensor {
 public:
  Tensor() = default;                                           // undefined
  static Tensor empty(Shape, DType = DType::f32, Device = {});  // uninitialised
  static Tensor zeros(Shape, DType = DType::f32, Device = {});
  static Tensor full(Shape, float value, DType = DType::f32, Device = {});
  static Tensor from(std::span<const float>, Shape);         // copies, f32
  static Tensor from(std::span<const std::int32_t>, Shape);  // copies, i32
  // Lends foreign CPU memory; `release` runs when the last window is gone.
  static Tensor wrap(void* data, Shape, DType, std::function<void()> release = {});

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  i64 shape(int dim) const { return shape()[dim]; }
  int rank() const { return shape().rank(); }
  i64 numel() const { return shape().numel(); }
  std::size_t bytes() const;
  DType dtype() const;
  Device device() const;

  // Windows on the same block. reshape: one extent may be -1; recorded on the tape. slice: rows
  // [begin, end) of the first dimension; not recorded.
  Tensor reshape(Shape) const;
  Tensor slice(i64 begin, i64 end) const;
  // same window, outside the tape
  Tensor detach() const;
  // own memory, outside the tape
  Tensor clone() const;
  // converted copy, outside the tape (cast() records)
  Tensor to(DType) const;
  Tensor to(Device) const;
  // same shape; converts the type
  void copy_from(const Tensor& src);
  void fill(float value);
  void zero();

  void* data() const;
  // first element; the type is checked
  template <class T>
  T* as() const {
    check<ShapeError>(DTypeOf<T>::value == dtype(), "tensor ", shape(), " holds ", dtype(),
                      ", asked for ", DTypeOf<T>::value);
    return static_cast<T*>(data());
  }
  template <class T>
  std::span<T> span() const {  // CPU only
    check<DeviceError>(device().is_cpu(), "span: tensor is on ", device(),
                       "; copy it with to(Device::cpu()) first");
    return {as<T>(), static_cast<std::size_t>(numel())};
  }
  // the only element, as float
  float item() const;

  Tensor& requires_grad(bool on = true);
  // a leaf that wants, or a result that carries, a gradient
  bool requires_grad() const;
  // undefined until backward()
  Tensor grad() const;
  // from a one-element tensor; see autograd.h
  void backward() const;

  // --- for FlatParams and the tape only
  // Every handle of this tensor sees `window`'s memory and type from now on.
  void rebind(const Tensor& window);
  const std::shared_ptr<Slot>& slot() const;
  void set_slot(std::shared_ptr<Slot>);
  // no other handle and no other window sees this memory
  bool sole() const;

 private:
  struct Impl;
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace gossamer
