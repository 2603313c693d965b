// batch_norm and the two ends of ResNet blocks that fuse with it: checks, statistics that are
// given, and the tape. The sums and the passes over x are the backend's.
#include <cmath>

#include "gossamer/core/backend.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

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
  if (add.defined()) {
    check<ShapeError>(add.shape() == x.shape() && add.dtype() == x.dtype(), op, ": add is ",
                      add.dtype(), " ", add.shape(), ", input is ", x.dtype(), " ", x.shape(),
                      "; they must be alike");
    detail::check_device(op, x, add);
  }
  check<ShapeError>(
      !in.options.training || rows > 1, op, ": input ", x.shape(), " has ", rows,
      " value per channel, training needs two or more; use a larger batch or training = false");
}

// Fills a Norm with given statistics. It copies the mean, since a later training step may move the
// running one before backward reads it.
struct GivenStatistics {
  const float *running_mean, *running_var, *scale, *shift;
  float eps;
  float *mean, *inv_std, *a, *b;
  GOSSAMER_HD void operator()(i64 c) const {
    mean[c] = running_mean[c];
    inv_std[c] = 1 / sqrtf(running_var[c] + eps);
    a[c] = scale[c] * inv_std[c];
    b[c] = shift[c] - mean[c] * a[c];
  }
};

Norm norm_of(const NormInput& in) {
  const Tensor& x = in.x;
  const auto vector = [&] { return Tensor::empty({x.shape(-1)}, DType::f32, x.device()); };
  Norm n{x, in.scale, in.shift, vector(), vector(), vector(), vector(), !in.options.training};
  if (in.options.training)
    backend(x.device())
        .norm_statistics(n, in.options.eps, {in.running_mean, in.running_var, in.options.momentum});
  else
    for_each(x.device(), x.shape(-1),
             GivenStatistics{in.running_mean.as<float>(), in.running_var.as<float>(),
                             in.scale.as<float>(), in.shift.as<float>(), in.options.eps,
                             n.mean.as<float>(), n.inv_std.as<float>(), n.a.as<float>(),
                             n.b.as<float>()});
  return n;
}

// What the tape keeps of a Norm, and back.
constexpr std::size_t kKept = 7;
void keep(std::vector<Tensor>& saved, const Norm& n) {
  for (const Tensor& t : {n.x, n.scale, n.shift, n.mean, n.inv_std, n.a, n.b}) saved.push_back(t);
}
Norm kept(const Tensor* t, bool given) { return {t[0], t[1], t[2], t[3], t[4], t[5], t[6], given}; }

Tensor like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }

// A gradient overwrites the tensor that it is computed from, element by element, if nobody else
// holds that. A new block would cost memory, and a read of each cache line before it is written.
Tensor in_place_of(const Tensor& t) { return t.sole() ? t.detach() : like(t); }

NormGrads gradients_of(const Tensor* kept, const Place* places) {
  const Shape channels = kept[1].shape();
  const Device device = kept[0].device();
  return {in_place_of(kept[0]), detail::overwritable(places[1], channels, device),
          detail::overwritable(places[2], channels, device)};
}

// pool?(relu?(norm(in) (+ norm(second) | + add)))
Tensor norm_op(const char* op, const NormInput& in, const NormInput* second, const Tensor& add,
               bool relu, bool pool) {
  const Norm one = norm_of(in), two = second ? norm_of(*second) : Norm{};
  std::vector<Tensor> inputs{in.x, in.scale, in.shift};
  if (second)
    inputs.insert(inputs.end(), {second->x, second->scale, second->shift});
  else
    inputs.push_back(add);
  const bool record_it = wants_grad(inputs);
  const Shape& s = in.x.shape();
  Tensor y = pool ? Tensor::empty({s[0], (s[1] - 1) / 2 + 1, (s[2] - 1) / 2 + 1, s[3]},
                                  in.x.dtype(), in.x.device())
                  : like(in.x);
  const NormTail tail{.add = add.defined() ? &add : nullptr,
                      .second = second ? &two : nullptr,
                      .relu = relu,
                      .pool = pool};
  const Tensor mask = backend(y.device()).norm_apply(one, tail, record_it, y);
  if (!record_it) return y;
  std::vector<Tensor> saved{mask};
  keep(saved, one);
  if (second) keep(saved, two);
  record(op, y, inputs, std::move(saved),
         [relu, pool, joined = second != nullptr, want_add = !second && detail::wants(add),
          given = one.given, given2 = two.given](const Tensor& dy, const std::vector<Tensor>& t,
                                                 const Places& places) {
           const NormGrads grads = gradients_of(&t[1], &places[0]),
                           grads2 = joined ? gradients_of(&t[1 + kKept], &places[3]) : NormGrads{};
           const Norm a = kept(&t[1], given), b = joined ? kept(&t[1 + kKept], given2) : Norm{};
           // Without a ReLU the gradient of the added branch is dy itself: nothing to compute.
           Tensor d_add = !want_add ? Tensor() : relu ? in_place_of(dy) : dy;
           backend(dy.device())
               .norm_back(a, {.second = joined ? &b : nullptr, .relu = relu, .pool = pool}, t[0],
                          dy, grads, joined ? &grads2 : nullptr,
                          want_add && relu ? &d_add : nullptr);
           Grads all{grads.dx, grads.d_scale, grads.d_shift};
           if (joined)
             all.insert(all.end(), {grads2.dx, grads2.d_scale, grads2.d_shift});
           else
             all.push_back(d_add);
           return all;
         });
  return y;
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, Tensor running_mean,
                  Tensor running_var, BatchNormOptions options, const Tensor& add) {
  const NormInput in{x, scale, shift, std::move(running_mean), std::move(running_var), options};
  check_arguments("batch_norm", in, add);
  return norm_op("batch_norm", in, nullptr, add, options.relu, false);
}

Tensor batch_norm_sum(const NormInput& a, const NormInput& b) {
  check_arguments("batch_norm_sum", a, b.x);
  check_arguments("batch_norm_sum", b, a.x);
  return norm_op("batch_norm_sum", a, &b, {}, true, false);
}

Tensor batch_norm_pool(const NormInput& a) {
  check_arguments("batch_norm_pool", a, {});
  check<ShapeError>(a.x.rank() == 4 && a.x.numel() > 0, "batch_norm_pool: input is ", a.x.shape(),
                    "; wanted [N, H, W, C], not empty");
  return norm_op("batch_norm_pool", a, nullptr, {}, true, true);
}

}  // namespace gossamer
