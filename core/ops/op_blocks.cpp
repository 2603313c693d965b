// The passes of blocks.h.
#include "gossamer/core/blocks.h"
#include "gossamer/core/ops/block_terms.h"

namespace gossamer {
namespace {

struct WeightedSum {
  float* x;
  const float* received;
  float own, share;
  GOSSAMER_HD void operator()(i64 i) const { x[i] = own * x[i] + share * received[i]; }
};
struct ScaleElement {
  float* x;
  float factor;
  GOSSAMER_HD void operator()(i64 i) const { x[i] *= factor; }
};
template <class Y, class X>
struct AddScaled {
  Y* y;
  const X* x;
  float a;
  GOSSAMER_HD void operator()(i64 i) const { store(y, i, load(y, i) + a * load(x, i)); }
};

}  // namespace

bool all_finite(const Tensor& x) {
  return sum_all(x.device(), x.numel(), NotFinite{x.as<float>()}) == 0;
}
double squared_norm(const Tensor& x) {
  return sum_all(x.device(), x.numel(), SquareAt{x.as<float>()});
}

void weighted_sum(Tensor& x, float own, float share, const Tensor& received) {
  check_same("weighted_sum", x, received);
  for_each(x.device(), x.numel(), WeightedSum{x.as<float>(), received.as<float>(), own, share});
}

double squared_distance(const Tensor& a, const Tensor& b) {
  check_same("squared_distance", a, b);
  return sum_all(a.device(), a.numel(), SquareGap{a.as<float>(), b.as<float>()});
}

void scale(Tensor& x, float factor) {
  for_each(x.device(), x.numel(), ScaleElement{x.as<float>(), factor});
}

void axpy(Tensor& y, float a, const Tensor& x) {
  check_same("axpy", y, x);
  for_each(y.device(), y.numel(), AddScaled<float, float>{y.as<float>(), x.as<float>(), a});
}

void accumulate(Tensor& y, const Tensor& x) {
  check<ShapeError>(x.defined() && y.defined() && x.numel() == y.numel(),
                    "accumulate: ", x.defined() ? x.shape().str() : "nothing", " into ",
                    y.defined() ? y.shape().str() : "nothing");
  check<DeviceError>(x.device() == y.device(), "accumulate: ", x.device(), " into ", y.device());
  with_floating(y.dtype(), x.dtype(), "accumulate", [&]<class Y, class X>() {
    for_each(y.device(), y.numel(), AddScaled<Y, X>{y.as<Y>(), x.as<X>(), 1});
  });
}

}  // namespace gossamer
