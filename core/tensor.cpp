// Tensor: windows, copies, conversions. The tape's half (requires_grad, backward) is in
// autograd.cpp.
#include "gossamer/core/tensor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "gossamer/core/autograd.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/ops/copy.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/sole.h"

namespace gossamer {

struct Tensor::Impl {
  std::shared_ptr<Block> block;
  std::size_t offset = 0;  // bytes
  Shape shape;
  DType dtype = DType::f32;
  std::shared_ptr<Slot> slot;
};

Tensor Tensor::empty(Shape shape, DType dtype, Device device) {
  i64 bytes = static_cast<i64>(size_of(dtype));
  for (const i64 extent : shape) {
    check<ShapeError>(extent >= 0, "tensor: shape ", shape, " has a negative extent");
    check<ShapeError>(!__builtin_mul_overflow(bytes, extent, &bytes), "tensor: shape ", shape,
                      " has more bytes than can be counted");
  }
  auto impl = std::make_shared<Impl>();
  impl->block = allocate(static_cast<std::size_t>(bytes), device);
  impl->shape = shape;
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

Tensor Tensor::zeros(Shape shape, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  t.zero();
  return t;
}

Tensor Tensor::full(Shape shape, float value, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  t.fill(value);
  return t;
}

Tensor Tensor::from(std::span<const float> values, Shape shape) {
  check<ShapeError>(static_cast<i64>(values.size()) == shape.numel(), "from: ", values.size(),
                    " values do not fill shape ", shape);
  Tensor t = empty(shape, DType::f32);
  std::ranges::copy(values, t.as<float>());
  return t;
}

Tensor Tensor::from(std::span<const std::int32_t> values, Shape shape) {
  check<ShapeError>(static_cast<i64>(values.size()) == shape.numel(), "from: ", values.size(),
                    " values do not fill shape ", shape);
  Tensor t = empty(shape, DType::i32);
  std::ranges::copy(values, t.as<std::int32_t>());
  return t;
}

Tensor Tensor::wrap(void* data, Shape shape, DType dtype, std::function<void()> release) {
  i64 bytes = 0;
  check<ShapeError>(
      !__builtin_mul_overflow(shape.numel(), static_cast<i64>(size_of(dtype)), &bytes),
      "wrap: shape ", shape, " has more bytes than can be counted");
  check<ShapeError>(reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0, "wrap: ", dtype,
                    " at the address ", data, ", which is no multiple of its ", size_of(dtype),
                    " bytes; copy the numbers to one that is");
  auto impl = std::make_shared<Impl>();
  impl->block = std::make_shared<Block>();
  impl->block->data = data;
  impl->block->bytes = static_cast<std::size_t>(bytes);
  impl->block->release = release ? std::move(release) : [] {};
  impl->shape = shape;
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

const Shape& Tensor::shape() const {
  check<ShapeError>(defined(), "tensor: used before it was given a value");
  return impl_->shape;
}
DType Tensor::dtype() const {
  check<ShapeError>(defined(), "tensor: used before it was given a value");
  return impl_->dtype;
}
Device Tensor::device() const {
  check<ShapeError>(defined(), "tensor: used before it was given a value");
  return impl_->block->device;
}
std::size_t Tensor::bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype()); }
void* Tensor::data() const {
  check<ShapeError>(defined(), "tensor: used before it was given a value");
  return static_cast<std::byte*>(impl_->block->data) + impl_->offset;
}

Tensor Tensor::reshape(Shape wanted) const {
  i64 known = 1;
  int hole = -1;
  std::array<i64, Shape::max_rank> extents{};
  for (int d = 0; d < wanted.rank(); ++d) {
    extents[static_cast<std::size_t>(d)] = wanted[d];
    if (wanted[d] >= 0) {
      check<ShapeError>(!__builtin_mul_overflow(known, wanted[d], &known), "reshape: ", wanted,
                        " has more elements than can be counted");
      continue;
    }
    check<ShapeError>(hole < 0, "reshape: ", wanted,
                      " leaves two extents open; only one may be -1");
    hole = d;
  }
  if (hole >= 0) {
    check<ShapeError>(known > 0 && numel() % known == 0, "reshape: ", shape(),
                      " does not divide into ", wanted);
    extents[static_cast<std::size_t>(hole)] = numel() / known;
  }
  const Shape result = Shape::of(extents.data(), wanted.rank());
  check<ShapeError>(result.numel() == numel(), "reshape: ", shape(), " has ", numel(),
                    " elements, ", wanted, " has ", result.numel());
  auto impl = std::make_shared<Impl>(*impl_);
  impl->shape = result;
  impl->slot = nullptr;
  Tensor out(std::move(impl));
  const Shape before = shape();
  record("reshape", out, {*this}, {}, [before](const Tensor& g, const std::vector<Tensor>&) {
    return Grads{g.reshape(before)};
  });
  return out;
}

Tensor Tensor::slice(i64 begin, i64 end) const {
  check<ShapeError>(rank() >= 1 && begin >= 0 && begin <= end && end <= shape(0), "slice: rows ",
                    begin, " … ", end, " of ", shape());
  i64 extents[Shape::max_rank];
  std::copy(shape().begin(), shape().end(), extents);
  const i64 row = shape(0) ? numel() / shape(0) : 0;
  extents[0] = end - begin;
  auto impl = std::make_shared<Impl>(*impl_);
  impl->shape = Shape::of(extents, rank());
  impl->offset += static_cast<std::size_t>(begin * row) * size_of(dtype());
  impl->slot = nullptr;
  return Tensor(std::move(impl));
}

Tensor Tensor::detach() const {
  check<ShapeError>(defined(), "tensor: used before it was given a value");
  auto impl = std::make_shared<Impl>(*impl_);
  impl->slot = nullptr;
  return Tensor(std::move(impl));
}

Tensor Tensor::clone() const {
  Tensor t = empty(shape(), dtype(), device());
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(DType type) const {
  Tensor t = empty(shape(), type, device());
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  Tensor t = empty(shape(), dtype(), device);
  t.copy_from(*this);
  return t;
}

namespace {

// Bytes from one device to another, or within a GPU. The CPU's side is complete when this returns;
// between GPUs, work enqueued on either later sees it.
void copy_bytes(const Block& to_block, void* to, const Block& from_block, const void* from,
                std::size_t bytes) {
  const Device gpu = from_block.device.is_cpu() ? to_block.device : from_block.device;
  const cuda::Stream stream = cuda::current_stream(gpu);
  if (!from_block.device.is_cpu() && !to_block.device.is_cpu() &&
      from_block.device != to_block.device) {
    const cuda::Event ready(to_block.device);
    // who uses the destination now is done first
    ready.record(cuda::current_stream(to_block.device));
    stream.wait(ready);
  }
  cuda::copy(to, from, bytes, stream);
  if (to_block.device.is_cpu()) return stream.synchronize();
  if (from_block.device.is_cpu()) return cuda::record_use(from_block, stream);
  if (from_block.device == to_block.device) return;
  const cuda::Event done(gpu);
  done.record(stream);
  cuda::current_stream(to_block.device).wait(done);
  cuda::record_use(to_block, stream);
}

}  // namespace

void Tensor::copy_from(const Tensor& src) {
  check<ShapeError>(src.shape() == shape(), "copy: ", src.shape(), " into ", shape());
  const i64 n = numel();
  if (n == 0) return;
  if (src.dtype() != dtype()) {
    if (src.device() == device())
      return detail::convert(device(), src.dtype(), src.data(), dtype(), data(), n);
    // The GPU converts, since it is faster than the CPU.
    return src.device().is_cpu() ? copy_from(src.to(device()).to(dtype()))
                                 : copy_from(src.to(dtype()));
  }
  if (!device().is_cpu() || !src.device().is_cpu())
    return copy_bytes(*impl_->block, data(), *src.impl_->block, src.data(), bytes());
  const std::size_t width = size_of(dtype());
  parallel_for(n, 1 << 16, [&](i64 begin, i64 end) {
    std::memcpy(static_cast<std::byte*>(data()) + static_cast<std::size_t>(begin) * width,
                static_cast<const std::byte*>(src.data()) + static_cast<std::size_t>(begin) * width,
                static_cast<std::size_t>(end - begin) * width);
  });
}

void Tensor::fill(float value) { detail::fill(device(), dtype(), data(), value, numel()); }

void Tensor::zero() {
  if (device().is_cpu())
    std::memset(data(), 0, bytes());
  else
    cuda::fill(data(), 0, bytes(), cuda::current_stream(device()));
}

float Tensor::item() const {
  check<ShapeError>(numel() == 1, "item: ", shape(), " has ", numel(), " elements, wanted one");
  if (!device().is_cpu()) return to(Device::cpu()).item();
  switch (dtype()) {
    case DType::f32:
      return *as<float>();
    case DType::bf16:
      return static_cast<float>(*as<bf16>());
    case DType::f16:
      return static_cast<float>(*as<f16>());
    case DType::u8:
      return static_cast<float>(*as<std::uint8_t>());
    case DType::i32:
      return static_cast<float>(*as<std::int32_t>());
    case DType::i64:
      return static_cast<float>(*as<i64>());
  }
  return 0;
}

void Tensor::rebind(const Tensor& window) {
  check<ShapeError>(window.shape() == shape(), "rebind: window ", window.shape(),
                    " for a tensor of ", shape());
  impl_->block = window.impl_->block;
  impl_->offset = window.impl_->offset;
  impl_->dtype = window.impl_->dtype;
}

const std::shared_ptr<Slot>& Tensor::slot() const {
  check<ShapeError>(defined(), "tensor: used before it was given a value");
  return impl_->slot;
}
bool Tensor::sole() const { return impl_ && sole_owner(impl_) && sole_owner(impl_->block); }
void Tensor::set_slot(std::shared_ptr<Slot> slot) { impl_->slot = std::move(slot); }

}  // namespace gossamer
