// See scale_rows.h.
#include "gossamer/core/ops/op_helpers.h"
#include "gossamer/core/ops/scale_rows.h"

namespace gossamer {
namespace {

template <class T>
struct ScaleRow {
  const T* x;
  const float* factors;
  T* y;
  i64 width;
  GOSSAMER_HD void operator()(i64 row, i64 begin, i64 end) const {
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c)
      store(y, row * width + c, load(x, row * width + c) * factors[row]);
  }
};

}  // namespace

Tensor scale_rows(const Tensor& x, const Tensor& factors) {
  constexpr const char* kOp = "scale_rows";
  detail::check_floating(kOp, "x", x);
  check<ShapeError>(x.rank() > 0 && factors.defined() && factors.dtype() == DType::f32 &&
                        factors.shape() == Shape{x.shape(0)},
                    kOp, ": x is ", x.shape(), ", factors are ",
                    factors.defined() ? factors.shape() : Shape{},
                    "; wanted f32, one for each row");
  detail::check_device(kOp, x, factors);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  if (x.numel() == 0) return y;
  const i64 rows = x.shape(0), width = x.numel() / rows;
  with_floating(x.dtype(), kOp, [&]<class T>() {
    for_each_row(x.device(), rows, width,
                 ScaleRow<T>{x.as<T>(), factors.as<float>(), y.as<T>(), width});
  });
  return y;
}

}  // namespace gossamer
