// batch_norm with the sum of a residual branch and ReLU fused: training through the backend, evaluation's gradient by formula.
#include <cmath>

#include "gossamer/core/backend.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

// running <- (1 - momentum) running + momentum batch; the variance is un-biased first: rows/(rows - 1).
struct UpdateRunning {
  const float *mean, *inv_std;
  float *running_mean, *running_var;
  float momentum, eps, unbias;
  GOSSAMER_HD void operator()(i64 c) const {
    const double inv = static_cast<double>(inv_std[c]);
    const double var = 1 / (inv * inv) - static_cast<double>(eps);
    if (running_mean) running_mean[c] += momentum * (mean[c] - running_mean[c]);
    if (running_var) running_var[c] += momentum * (static_cast<float>(var > 0 ? var : 0) * unbias - running_var[c]);
  }
};

struct InverseStd {
  const float* var;
  float* inv_std;
  float eps;
  GOSSAMER_HD void operator()(i64 c) const { inv_std[c] = 1 / sqrtf(var[c] + eps); }
};

// Gradient that passes the fused ReLU; y is null without one.
template <class T> struct Masked {
  const T *dy, *y;
  GOSSAMER_HD float operator()(i64 i) const { return !y || load(y, i) > 0 ? load(dy, i) : 0.0f; }
};
template <class T> struct ShiftTerm {             // d_shift = sum g
  Masked<T> g;
  i64 cols;
  GOSSAMER_HD float operator()(i64 r, i64 c) const { return g(r * cols + c); }
};
template <class T> struct ScaleTerm {             // d_scale = sum g xhat
  Masked<T> g;
  const T* x;
  const float *mean, *inv_std;
  i64 cols;
  GOSSAMER_HD float operator()(i64 r, i64 c) const { return g(r * cols + c) * ((load(x, r * cols + c) - mean[c]) * inv_std[c]); }
};
template <class T> struct FixedBack {             // statistics are constants here: dx = scale inv_std g, d_add = g
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

void check_arguments(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& running_mean,
                     const Tensor& running_var, const BatchNormOptions& o, const Tensor& add) {
  detail::check_floating("batch_norm", "input", x);
  check<ShapeError>(x.rank() >= 2 && x.shape(-1) > 0, "batch_norm: input is ", x.shape(),
                    "; wanted [..., C] with at least two dimensions");
  const i64 cols = x.shape(-1), rows = x.numel() / cols;
  const auto check_vector = [&](const char* what, const Tensor& t) {
    check<ShapeError>(t.defined(), "batch_norm: ", what, " is undefined; wanted f32 [", cols, "] for input ", x.shape());
    check<ShapeError>(t.shape() == Shape{cols} && t.dtype() == DType::f32, "batch_norm: ", what, " is ", t.dtype(), " ",
                      t.shape(), ", input ", x.shape(), " wants f32 [", cols, "]");
    detail::check_device("batch_norm", x, t);
  };
  check_vector("scale", scale);
  check_vector("shift", shift);
  if (!o.training || running_mean.defined()) check_vector("running_mean", running_mean);
  if (!o.training || running_var.defined()) check_vector("running_var", running_var);
  if (add.defined())
    check<ShapeError>(add.shape() == x.shape() && add.dtype() == x.dtype(), "batch_norm: add is ", add.dtype(), " ", add.shape(),
                      ", input is ", x.dtype(), " ", x.shape(), "; they must be alike");
  check<ShapeError>(!o.training || rows > 1, "batch_norm: input ", x.shape(), " has ", rows,
                    " value per channel, training needs two or more; use a larger batch or training = false");
}

Grads fixed_back(const Tensor& dy, const Tensor& x, const Tensor& y, const Tensor& scale, const Tensor& mean,
                 const Tensor& inv_std, bool want_add) {
  const i64 cols = x.shape(-1), rows = x.numel() / cols;
  Grads grads{Tensor::empty(x.shape(), x.dtype(), x.device()), Tensor::empty({cols}, DType::f32, x.device()),
              Tensor::empty({cols}, DType::f32, x.device()),
              want_add ? Tensor::empty(x.shape(), x.dtype(), x.device()) : Tensor()};
  with_floating(x.dtype(), "batch_norm", [&]<class T>() {
    const Masked<T> g{dy.as<T>(), y.defined() ? y.as<T>() : nullptr};
    sum_columns(x.device(), rows, cols, ScaleTerm<T>{g, x.as<T>(), mean.as<float>(), inv_std.as<float>(), cols},
                grads[1].as<float>());
    sum_columns(x.device(), rows, cols, ShiftTerm<T>{g, cols}, grads[2].as<float>());
    for_each_row(
        x.device(), rows, cols,
        FixedBack<T>{g, scale.as<float>(), inv_std.as<float>(), grads[0].as<T>(), want_add ? grads[3].as<T>() : nullptr, cols});
  });
  return grads;
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, Tensor running_mean, Tensor running_var,
                  BatchNormOptions options, const Tensor& add) {
  check_arguments(x, scale, shift, running_mean, running_var, options, add);
  const i64 cols = x.shape(-1), rows = x.numel() / cols;
  const Device device = x.device();
  const Tensor* branch = add.defined() ? &add : nullptr;
  Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  Tensor mean, inv_std = Tensor::empty({cols}, DType::f32, device);
  if (options.training) {
    mean = Tensor::empty({cols}, DType::f32, device);
    backend(device).batch_norm_train(x, branch, scale, shift, options.eps, options.relu, y, mean, inv_std);
    if (running_mean.defined() || running_var.defined())
      for_each(device, cols,
               UpdateRunning{mean.as<float>(), inv_std.as<float>(), running_mean.defined() ? running_mean.as<float>() : nullptr,
                             running_var.defined() ? running_var.as<float>() : nullptr, options.momentum, options.eps,
                             static_cast<float>(rows) / static_cast<float>(rows - 1)});
  } else {
    // A copy: a later training step may move the running mean before backward reads it.
    mean = wants_grad({x, scale, shift, add}) ? running_mean.clone() : running_mean;
    for_each(device, cols, InverseStd{running_var.as<float>(), inv_std.as<float>(), options.eps});
    backend(device).batch_norm_apply(x, branch, scale, shift, options.relu, mean, inv_std, y);
  }
  if (!wants_grad({x, scale, shift, add})) return y;
  const bool training = options.training, relu = options.relu, want_add = detail::wants(add);
  record("batch_norm", y, {x, scale, shift, add}, {x, relu ? y : Tensor(), scale, mean, inv_std},
         [=](const Tensor& dy, const std::vector<Tensor>& saved) {
    const Tensor &in = saved[0], &out = saved[1];
    if (!training) return fixed_back(dy, in, out, saved[2], saved[3], saved[4], want_add);
    Grads grads{Tensor::empty(in.shape(), in.dtype(), in.device()), Tensor::empty({cols}, DType::f32, in.device()),
                Tensor::empty({cols}, DType::f32, in.device()), Tensor()};
    // Without a ReLU the gradient of the added branch is dy itself: nothing to compute.
    if (want_add) grads[3] = relu ? Tensor::empty(in.shape(), in.dtype(), in.device()) : dy;
    backend(in.device())
        .batch_norm_back(dy, in, relu ? &out : nullptr, saved[2], saved[3], saved[4], relu, grads[0], grads[1], grads[2],
                         want_add && relu ? &grads[3] : nullptr);
    return grads;
  });
  return y;
}

}  // namespace gossamer
