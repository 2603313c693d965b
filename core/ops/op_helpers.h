// Shared by the op files: type and device checks, the three kinds of broadcast, and summing a
// gradient back over one.
#pragma once

#include "gossamer/core/autograd.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/eight.h"
#include "gossamer/core/ops/kernel.h"

namespace gossamer::detail {

// Every op starts with these checks: an undefined tensor, a wrong type, tensors on two devices.
inline void check_floating(const char* op, const char* what, const Tensor& x) {
  check<ShapeError>(x.defined(), op, ": ", what,
                    " is undefined; was it moved away or never given a value?");
  check<ShapeError>(is_floating(x.dtype()), op, ": ", what, " ", x.shape(), " is ", x.dtype(),
                    "; wanted f32, bf16 or f16: say normalize(images, …) for pictures, "
                    "x.to(DType::f32) for others; in C give gsm_tensor_copy floats");
}
// What dropout needs: p in [0, 1) and, if p > 0, a stream i64 [] on the device of x.
void check_dropout(const char* op, const Tensor& x, float p, const Tensor& stream);
inline void check_device(const char* op, const Tensor& a, const Tensor& b) {
  check<DeviceError>(a.device() == b.device(), op, ": ", a.shape(), " is on ", a.device(), ", ",
                     b.shape(), " on ", b.device(), "; move one with to()");
}

// The type in which an input wants its gradient: its own, except that 16-bit copies of flat
// parameters accumulate in f32.
inline DType grad_type(const Tensor& x) {
  return x.defined() && x.slot() ? x.slot()->dtype : x.defined() ? x.dtype() : DType::f32;
}
inline bool wants(const Tensor& x) { return x.defined() && x.slot() != nullptr; }
// An f32 gradient's own place where it may be overwritten, else new memory.
inline Tensor overwritable(const Place& place, const Shape& shape, Device device) {
  const bool fits = place.at.defined() && !place.holds_sum && place.at.dtype() == DType::f32;
  return fits ? place.at : Tensor::empty(shape, DType::f32, device);
}
inline Tensor as_type(const Tensor& x, DType type) { return x.dtype() == type ? x : x.to(type); }

enum class BroadcastKind { same, one, trailing };
struct Broadcast {
  BroadcastKind kind = BroadcastKind::same;
  i64 rows = 1, cols = 0;  // the first operand as [rows, cols]; b has cols elements, or one
};
inline Broadcast broadcast_of(const char* op, const Shape& a, const Shape& b) {
  if (a == b) return {BroadcastKind::same, 1, a.numel()};
  if (b.numel() == 1) return {BroadcastKind::one, 1, a.numel()};
  bool fits = b.rank() <= a.rank();
  for (int d = 1; fits && d <= b.rank(); ++d) fits = a[-d] == b[-d];
  check<ShapeError>(fits, op, ": a is ", a, ", b is ", b,
                    "; b must have the shape of a, one element, or the last dimensions of a",
                    b.numel() > a.numel() ? " (is the larger one first?)" : "");
  return {BroadcastKind::trailing, b.numel() ? a.numel() / b.numel() : 0, b.numel()};
}

// x as floats, by flat index and by (row, column).
template <class T>
struct Read {
  const T* x;
  i64 cols = 0;
  GOSSAMER_HD float operator()(i64 i) const { return load(x, i); }
  GOSSAMER_HD float operator()(i64 r, i64 c) const { return load(x, r * cols + c); }
  using Eights = Eight;
  GOSSAMER_HD Eight read(i64 r, i64 c) const { return load_eight<true>(x + r * cols + c, 8); }
  GOSSAMER_HD Eight terms(i64, i64, const Eight& e) const { return e; }
  bool in_eights() const { return cols % 8 == 0 && aligned16(x); }
};

// Sums g (the shape of the first operand) over what a broadcast repeated; the result has `shape`
// and `type`.
Tensor sum_broadcast(const Tensor& g, const Broadcast& b, const Shape& shape, DType type);

}  // namespace gossamer::detail
