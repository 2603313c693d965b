// Mixup and CutMix: each image of a batch is blended with the one before it, everywhere or in one
// rectangle.
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

// own(h, w): how much of itself a pixel keeps. y[n] = own x[n] + (1 - own) x[n + shift], n taken
// modulo N.
template <class T>
struct Mix {
  const T* x;
  T* y;
  // outside, inside, top, bottom, left, right: on the device, so that a recorded step can be
  // replayed
  const float* plan;
  i64 n, h, w, c, shift;
  // row: one line of one image
  GOSSAMER_HD void operator()(i64 row, i64 begin, i64 end) const {
    const i64 image = row / h, line = row - image * h,
              partner = image + shift < n ? (image + shift < 0 ? n - 1 : image + shift) : 0;
    const T *own = x + row * w * c, *other = x + (partner * h + line) * w * c;
    T* out = y + row * w * c;
    const float outside = plan[0];
    const bool crossed = static_cast<float>(line) >= plan[2] && static_cast<float>(line) < plan[3];
    const float inside = crossed ? plan[1] : outside;
    const i64 left = static_cast<i64>(plan[4]) * c, right = static_cast<i64>(plan[5]) * c;
    for (i64 i = begin; i < end; ++i) {
      const float a = i >= left && i < right ? inside : outside;
      const float mine = load(own, i), theirs = load(other, i);
      store(out, i, a == 1.0f ? mine : a == 0.0f ? theirs : a * mine + (1 - a) * theirs);
    }
  }
};

// The gradient of x[n] comes from y[n] and from the image that x[n] was blended into. Both see the
// pixel with the same weight, so it is the same sum with the neighbour on the other side.
Tensor mixed(const Tensor& x, const Tensor& plan, i64 shift) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const i64 n = x.shape(0), h = x.shape(1), w = x.shape(2), c = x.shape(3);
  with_floating(x.dtype(), "mix_batch", [&]<class T>() {
    for_each_row(x.device(), n * h, w * c,
                 Mix<T>{x.as<T>(), y.as<T>(), plan.as<float>(), n, h, w, c, shift});
  });
  return y;
}

}  // namespace

Tensor mix_batch(const Tensor& x, const Tensor& plan) {
  detail::check_floating("mix_batch", "input", x);
  check<ShapeError>(x.rank() == 4 && x.shape(0) > 0, "mix_batch: input is ", x.shape(),
                    "; wanted [N, H, W, C]");
  check<ShapeError>(
      plan.defined() && plan.dtype() == DType::f32 && plan.shape() == Shape({6}),
      "mix_batch: the plan must be f32 [6] (outside, inside, top, bottom, left, right), given ",
      plan.defined() ? plan.shape().str() + " " + name_of(plan.dtype()) : "nothing");
  detail::check_device("mix_batch", x, plan);
  Tensor y = mixed(x, plan, -1);
  record("mix_batch", y, {x}, {plan}, [](const Tensor& g, const std::vector<Tensor>& saved) {
    return Grads{mixed(g, saved[0], 1)};
  });
  return y;
}

}  // namespace gossamer
