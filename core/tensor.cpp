// Tensor: windows, copies, conversions. The tape's half (requires_grad, backward) is in autograd.cpp.
#include "gossamer/core/tensor.h"

#include <algorithm>
#include <cstring>

#include "gossamer/core/autograd.h"
#include "gossamer/core/parallel.h"

namespace gossamer {

struct Tensor::Impl {
  std::shared_ptr<Block> block;
  std::size_t offset = 0;      // bytes
  Shape shape;
  DType dtype = DType::f32;
  std::shared_ptr<Slot> slot;
};

namespace {

// Converts n elements of type A to type B.
template <class A, class B> void convert(const void* from, void* to, i64 n) {
  const A* a = static_cast<const A*>(from);
  B* b = static_cast<B*>(to);
  parallel_for(n, 1 << 15, [=](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) {
      if constexpr (std::is_same_v<A, bf16> || std::is_same_v<B, bf16>) b[i] = B(static_cast<float>(a[i]));
      else b[i] = static_cast<B>(a[i]);
    }
  });
}

template <class A> void convert_from(const void* from, DType type, void* to, i64 n) {
  switch (type) {
    case DType::f32: convert<A, float>(from, to, n); return;
    case DType::bf16: convert<A, bf16>(from, to, n); return;
    case DType::u8: convert<A, std::uint8_t>(from, to, n); return;
    case DType::i32: convert<A, std::int32_t>(from, to, n); return;
    case DType::i64: convert<A, i64>(from, to, n); return;
    case DType::f16: fail<ShapeError>("copy: f16 exists on GPUs only; use bf16 or f32");
  }
}

}  // namespace

Tensor Tensor::empty(Shape shape, DType dtype, Device device) {
  i64 bytes = static_cast<i64>(size_of(dtype));
  for (const i64 extent : shape) {
    check<ShapeError>(extent >= 0, "tensor: shape ", shape, " has a negative extent");
    check<ShapeError>(!__builtin_mul_overflow(bytes, extent, &bytes), "tensor: shape ", shape, " has more bytes than can be counted");
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
  check<ShapeError>(static_cast<i64>(values.size()) == shape.numel(), "from: ", values.size(), " values do not fill shape ", shape);
  Tensor t = empty(shape, DType::f32);
  std::ranges::copy(values, t.as<float>());
  return t;
}

Tensor Tensor::from(std::span<const std::int32_t> values, Shape shape) {
  check<ShapeError>(static_cast<i64>(values.size()) == shape.numel(), "from: ", values.size(), " values do not fill shape ", shape);
  Tensor t = empty(shape, DType::i32);
  std::ranges::copy(values, t.as<std::int32_t>());
  return t;
}

Tensor Tensor::wrap(void* data, Shape shape, DType dtype, std::function<void()> release) {
  i64 bytes = 0;
  check<ShapeError>(!__builtin_mul_overflow(shape.numel(), static_cast<i64>(size_of(dtype)), &bytes), "wrap: shape ", shape,
                    " has more bytes than can be counted");
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
  for (int d = 0; d < wanted.rank(); ++d) {
    if (wanted[d] >= 0) {
      check<ShapeError>(!__builtin_mul_overflow(known, wanted[d], &known), "reshape: ", wanted, " has more elements than can be counted");
      continue;
    }
    check<ShapeError>(hole < 0, "reshape: ", wanted, " leaves two extents open; only one may be -1");
    hole = d;
  }
  i64 extents[Shape::max_rank] = {};
  std::copy(wanted.begin(), wanted.end(), extents);
  if (hole >= 0) {
    check<ShapeError>(known > 0 && numel() % known == 0, "reshape: ", shape(), " does not divide into ", wanted);
    extents[hole] = numel() / known;
  }
  const Shape result = Shape::of(extents, wanted.rank());
  check<ShapeError>(result.numel() == numel(), "reshape: ", shape(), " has ", numel(), " elements, ", wanted, " has ", result.numel());
  auto impl = std::make_shared<Impl>(*impl_);
  impl->shape = result;
  impl->slot = nullptr;
  Tensor out(std::move(impl));
  const Shape before = shape();
  record("reshape", out, {*this}, {}, [before](const Tensor& g, const std::vector<Tensor>&) { return Grads{g.reshape(before)}; });
  return out;
}

Tensor Tensor::slice(i64 begin, i64 end) const {
  check<ShapeError>(rank() >= 1 && begin >= 0 && begin <= end && end <= shape(0), "slice: rows ", begin, " … ", end, " of ", shape());
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
  check<DeviceError>(device == this->device(), "to: copying from ", this->device(), " to ", device, " needs the cuda backend");
  return *this;
}

void Tensor::copy_from(const Tensor& src) {
  check<ShapeError>(src.shape() == shape(), "copy: ", src.shape(), " into ", shape());
  check<DeviceError>(device().is_cpu() && src.device().is_cpu(), "copy: from ", src.device(), " to ", device(), " needs the cuda backend");
  const i64 n = numel();
  if (src.dtype() == dtype()) {
    const std::size_t width = size_of(dtype());
    parallel_for(n, 1 << 16, [&](i64 begin, i64 end) {
      std::memcpy(static_cast<std::byte*>(data()) + static_cast<std::size_t>(begin) * width,
                  static_cast<const std::byte*>(src.data()) + static_cast<std::size_t>(begin) * width, static_cast<std::size_t>(end - begin) * width);
    });
    return;
  }
  switch (src.dtype()) {
    case DType::f32: convert_from<float>(src.data(), dtype(), data(), n); return;
    case DType::bf16: convert_from<bf16>(src.data(), dtype(), data(), n); return;
    case DType::u8: convert_from<std::uint8_t>(src.data(), dtype(), data(), n); return;
    case DType::i32: convert_from<std::int32_t>(src.data(), dtype(), data(), n); return;
    case DType::i64: convert_from<i64>(src.data(), dtype(), data(), n); return;
    case DType::f16: fail<ShapeError>("copy: f16 exists on GPUs only; use bf16 or f32");
  }
}

void Tensor::fill(float value) {
  const i64 n = numel();
  switch (dtype()) {
    case DType::f32: std::fill_n(as<float>(), n, value); return;
    case DType::bf16: std::fill_n(as<bf16>(), n, bf16(value)); return;
    case DType::u8: std::fill_n(as<std::uint8_t>(), n, static_cast<std::uint8_t>(value)); return;
    case DType::i32: std::fill_n(as<std::int32_t>(), n, static_cast<std::int32_t>(value)); return;
    case DType::i64: std::fill_n(as<i64>(), n, static_cast<i64>(value)); return;
    case DType::f16: fail<ShapeError>("fill: f16 exists on GPUs only; use bf16 or f32");
  }
}

void Tensor::zero() {
  check<DeviceError>(device().is_cpu(), "zero: tensor on ", device(), " needs the cuda backend");
  std::memset(data(), 0, bytes());
}

float Tensor::item() const {
  check<ShapeError>(numel() == 1, "item: ", shape(), " has ", numel(), " elements, wanted one");
  switch (dtype()) {
    case DType::f32: return *as<float>();
    case DType::bf16: return static_cast<float>(*as<bf16>());
    case DType::u8: return static_cast<float>(*as<std::uint8_t>());
    case DType::i32: return static_cast<float>(*as<std::int32_t>());
    case DType::i64: return static_cast<float>(*as<i64>());
    case DType::f16: break;
  }
  fail<ShapeError>("item: f16 exists on GPUs only; use to(DType::f32) there");
}

void Tensor::rebind(const Tensor& window) {
  check<ShapeError>(window.shape() == shape(), "rebind: window ", window.shape(), " for a tensor of ", shape());
  impl_->block = window.impl_->block;
  impl_->offset = window.impl_->offset;
  impl_->dtype = window.impl_->dtype;
}

const std::shared_ptr<Slot>& Tensor::slot() const {
  check<ShapeError>(defined(), "tensor: used before it was given a value");
  return impl_->slot;
}
void Tensor::set_slot(std::shared_ptr<Slot> slot) { impl_->slot = std::move(slot); }

}  // namespace gossamer
