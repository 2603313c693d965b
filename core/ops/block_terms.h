// Terms of sums over f32 blocks, and the check that two blocks have equal lengths.
#pragma once

#include "gossamer/core/error.h"
#include "gossamer/core/ops/kernel.h"
#include "gossamer/core/tensor.h"

namespace gossamer {

inline void check_same(const char* op, const Tensor& x, const Tensor& y) {
  check<ShapeError>(x.defined() && y.defined(), op, ": an operand is undefined");
  check<ShapeError>(x.dtype() == DType::f32 && y.dtype() == DType::f32 && x.numel() == y.numel(),
                    op, ": ", x.dtype(), " ", x.shape(), " and ", y.dtype(), " ", y.shape(),
                    "; wanted two f32 blocks of equal length");
  check<DeviceError>(x.device() == y.device(), op, ": operands on ", x.device(), " and ",
                     y.device());
}

struct SquareAt {
  const float* x;
  GOSSAMER_HD double operator()(i64 i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
};
struct NotFinite {  // exponent all ones
  const float* x;
  GOSSAMER_HD double operator()(i64 i) const {
    return (__builtin_bit_cast(std::uint32_t, x[i]) & 0x7f800000u) == 0x7f800000u ? 1.0 : 0.0;
  }
};
struct SquareGap {
  const float *a, *b;
  GOSSAMER_HD double operator()(i64 i) const {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    return d * d;
  }
};

}  // namespace gossamer
