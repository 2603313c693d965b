// batch_norm with the sum of a residual branch and ReLU fused, and what ends in one: training
// through the backend, evaluation's gradient by formula. Where by_passes(), the passes of
// op_norm_passes.cpp instead.
#include <cmath>

#include "gossamer/core/backend.h"
#include "gossamer/core/ops/norm_passes.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

// running <- (1 - momentum) running + momentum batch; the variance is un-biased first: rows/(rows -
// 1).
struct UpdateRunning {
  const float *mean, *inv_std;
  float *running_mean, *running_var;
  float momentum, eps, unbias;
  GOSSAMER_HD void operator()(i64 c) const {
    const double inv = static_cast<double>(inv_std[c]);
    const double var = 1 / (inv * inv) - static_cast<double>(eps);
    if (running_mean) running_mean[c] += momentum * (mean[c] - running_mean[c]);
    if (running_var)
      running_var[c] +=
          momentum * (static_cast<float>(var > 0 ? var : 0) * unbias - running_var[c]);
  }
};

// Gradient that passes the fused ReLU; y is null without one.
template <class T>
struct Masked {
  const T *dy, *y;
  GOSSAMER_HD float operator()(i64 i) const { return !y || load(y, i) > 0 ? load(dy, i) : 0.0f; }
};
template <class T>
struct ShiftTerm {  // d_shift = sum g
  Masked<T> g;
  i64 cols;
  GOSSAMER_HD float operator()(i64 r, i64 c) const { return g(r * cols + c); }
};
template <class T>
struct ScaleTerm {  // d_scale = sum g xhat
  Masked<T> g;
  const T* x;
  const float *mean, *inv_std;
  i64 cols;
  GOSSAMER_HD float operator()(i64 r, i64 c) const {
    return g(r * cols + c) * ((load(x, r * cols + c) - mean[c]) * inv_std[c]);
  }
};
// statistics are constants here: dx = scale inv_std g, d_add = g
template <class T>
struct FixedBack {
  Masked<T> g;
  const float *scale, *inv_std;
  T *dx, *d_add;
  i64 cols;
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) {
      const float up = g(r * cols + c);
      store(dx, r * cols + c, scale[c] * inv_std[c] * up);
      if (d_add) store(d_add, r * cols + c, up);
    }
  }
};

void check_arguments(const char* op, const NormInput& in, const Tensor& add) {
  const Tensor& x = in.x;
  detail::check_floating(op, "input", x);
  check<ShapeError>(x.rank() >= 2 && x.shape(-1) > 0, op, ": input is ", x.shape(),
                    "; wanted [..., C] with at least two dimensions");
  const i64 cols = x.shape(-1), rows = x.numel() / cols;
  const auto check_vector = [&](const char* what, const Tensor& t) {
    check<ShapeError>(t.defined(), op, ": ", what, " is undefined; wanted f32 [", cols,
                      "] for input ", x.shape());
    check<ShapeError>(t.shape() == Shape{cols} && t.dtype() == DType::f32, op, ": ", what, " is ",
                      t.dtype(), " ", t.shape(), ", input ", x.shape(), " wants f32 [", cols, "]");
    detail::check_device(op, x, t);
  };
  check_vector("scale", in.scale);
  check_vector("shift", in.shift);
  if (!in.options.training || in.running_mean.defined())
    check_vector("running_mean", in.running_mean);
  if (!in.options.training || in.running_var.defined()) check_vector("running_var", in.running_var);
  if (add.defined())
    check<ShapeError>(add.shape() == x.shape() && add.dtype() == x.dtype(), op, ": add is ",
                      add.dtype(), " ", add.shape(), ", input is ", x.dtype(), " ", x.shape(),
                      "; they must be alike");
  check<ShapeError>(
      !in.options.training || rows > 1, op, ": input ", x.shape(), " has ", rows,
      " value per channel, training needs two or more; use a larger batch or training = false");
}

Grads fixed_back(const Tensor& dy, const Tensor& x, const Tensor& y, const Tensor& scale,
                 const Tensor& mean, const Tensor& inv_std, bool want_add) {
  const i64 cols = x.shape(-1), rows = x.numel() / cols;
  Grads grads{Tensor::empty(x.shape(), x.dtype(), x.device()),
              Tensor::empty({cols}, DType::f32, x.device()),
              Tensor::empty({cols}, DType::f32, x.device()),
              want_add ? Tensor::empty(x.shape(), x.dtype(), x.device()) : Tensor()};
  with_floating(x.dtype(), "batch_norm", [&]<class T>() {
    const Masked<T> g{dy.as<T>(), y.defined() ? y.as<T>() : nullptr};
    sum_columns(x.device(), rows, cols,
                ScaleTerm<T>{g, x.as<T>(), mean.as<float>(), inv_std.as<float>(), cols},
                grads[1].as<float>());
    sum_columns(x.device(), rows, cols, ShiftTerm<T>{g, cols}, grads[2].as<float>());
    for_each_row(x.device(), rows, cols,
                 FixedBack<T>{g, scale.as<float>(), inv_std.as<float>(), grads[0].as<T>(),
                              want_add ? grads[3].as<T>() : nullptr, cols});
  });
  return grads;
}

// With the options' ReLU. Statistics that are given are constants for backward.
Tensor with_fixed_statistics(const NormInput& in, const Tensor& add) {
  const Tensor& x = in.x;
  const bool relu = in.options.relu, want_add = detail::wants(add);
  // A copy: a later training step may move the running mean before backward reads it.
  const Tensor mean =
      wants_grad({x, in.scale, in.shift, add}) ? in.running_mean.clone() : in.running_mean;
  const Tensor inv_std = detail::inverse_std(in);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  if (by_passes(x.device())) {
    const NoGrad off;
    y = detail::norm_by_passes("batch_norm", in, nullptr, add, relu);
  } else {
    backend(x.device())
        .batch_norm_apply(x, add.defined() ? &add : nullptr, in.scale, in.shift, relu, mean,
                          inv_std, y);
  }
  record("batch_norm", y, {x, in.scale, in.shift, add},
         {x, relu ? y : Tensor(), in.scale, mean, inv_std},
         [=](const Tensor& dy, const std::vector<Tensor>& saved) {
           return fixed_back(dy, saved[0], saved[1], saved[2], saved[3], saved[4], want_add);
         });
  return y;
}

Tensor by_the_backend(const NormInput& in, const Tensor& add) {
  const Tensor& x = in.x;
  const BatchNormOptions& o = in.options;
  const i64 cols = x.shape(-1), rows = x.numel() / cols;
  const Device device = x.device();
  Tensor y = Tensor::empty(x.shape(), x.dtype(), device),
         mean = Tensor::empty({cols}, DType::f32, device),
         inv_std = Tensor::empty({cols}, DType::f32, device);
  backend(device).batch_norm_train(x, add.defined() ? &add : nullptr, in.scale, in.shift, o.eps,
                                   o.relu, y, mean, inv_std);
  if (in.running_mean.defined() || in.running_var.defined())
    for_each(
        device, cols,
        UpdateRunning{mean.as<float>(), inv_std.as<float>(),
                      in.running_mean.defined() ? in.running_mean.as<float>() : nullptr,
                      in.running_var.defined() ? in.running_var.as<float>() : nullptr, o.momentum,
                      o.eps, static_cast<float>(rows) / static_cast<float>(rows - 1)});
  const bool relu = o.relu, want_add = detail::wants(add);
  record("batch_norm", y, {x, in.scale, in.shift, add},
         {x, relu ? y : Tensor(), in.scale, mean, inv_std},
         [=](const Tensor& dy, const std::vector<Tensor>& saved) {
           const Tensor &in_x = saved[0], &out = saved[1];
           Grads grads{Tensor::empty(in_x.shape(), in_x.dtype(), device),
                       Tensor::empty({cols}, DType::f32, device),
                       Tensor::empty({cols}, DType::f32, device), Tensor()};
           // Without a ReLU the gradient of the added branch is dy itself: nothing to compute.
           if (want_add) grads[3] = relu ? Tensor::empty(in_x.shape(), in_x.dtype(), device) : dy;
           backend(device).batch_norm_back(dy, in_x, relu ? &out : nullptr, saved[2], saved[3],
                                           saved[4], relu, grads[0], grads[1], grads[2],
                                           want_add && relu ? &grads[3] : nullptr);
           return grads;
         });
  return y;
}

Tensor norm_of(const NormInput& in, const Tensor& add) {
  if (!in.options.training) return with_fixed_statistics(in, add);
  return by_passes(in.x.device())
             ? detail::norm_by_passes("batch_norm", in, nullptr, add, in.options.relu)
             : by_the_backend(in, add);
}
Tensor norm_of(NormInput in, bool relu, const Tensor& add = {}) {
  in.options.relu = relu;
  return norm_of(in, add);
}

// Fixed statistics have no passes backward.
bool by_passes_with_gradient(const NormInput& in) {
  return by_passes(in.x.device()) &&
         (in.options.training || !wants_grad({in.x, in.scale, in.shift}));
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, Tensor running_mean,
                  Tensor running_var, BatchNormOptions options, const Tensor& add) {
  const NormInput in{x, scale, shift, std::move(running_mean), std::move(running_var), options};
  check_arguments("batch_norm", in, add);
  return norm_of(in, add);
}

Tensor batch_norm_sum(const NormInput& a, const NormInput& b) {
  check_arguments("batch_norm_sum", a, b.x);
  check_arguments("batch_norm_sum", b, a.x);
  if (by_passes_with_gradient(a) && by_passes_with_gradient(b))
    return detail::norm_by_passes("batch_norm_sum", a, &b, {}, true);
  return norm_of(a, true, norm_of(b, false));
}

Tensor batch_norm_pool(const NormInput& a) {
  check_arguments("batch_norm_pool", a, {});
  check<ShapeError>(a.x.rank() == 4 && a.x.numel() > 0, "batch_norm_pool: input is ", a.x.shape(),
                    "; wanted [N, H, W, C], not empty");
  if (by_passes_with_gradient(a)) return detail::pool_by_passes("batch_norm_pool", a);
  return max_pool2d(norm_of(a, true), {.kernel = 3, .stride = 2, .padding = 1});
}

}  // namespace gossamer
