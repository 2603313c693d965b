// Batch norm on a GPU: the passes of fused.h as ops on the tape. Backward reads no output: what a
// ReLU let through is one bit an element where something was added before it, the tap's number
// after pooling, and is computed again elsewhere.
#include <cmath>
#include <optional>

#include "gossamer/core/fused.h"
#include "gossamer/core/ops/norm_passes.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer::detail {
namespace {

using fused::NormBack;
using fused::NormFactors;
using fused::NormGradient;

struct InverseStd {
  const float* var;
  float* inv_std;
  float eps;
  GOSSAMER_HD void operator()(i64 c) const { inv_std[c] = 1 / sqrtf(var[c] + eps); }
};

Tensor like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }

NormFactors factors_of(const NormInput& in) {
  NormFactors f = NormFactors::empty(in.x.shape(-1), in.x.device());
  if (in.options.training) {
    fused::norm_statistics(in.x, in.scale, in.shift, in.options.eps,
                           {in.running_mean, in.running_var, in.options.momentum}, f);
  } else {
    f.mean = in.running_mean;
    f.inv_std = inverse_std(in);
    fused::norm_factors(in.scale, in.shift, f);
  }
  return f;
}

// What backward needs of one normalised input, and where it puts its gradients.
constexpr std::size_t kKept = 6;
void keep(std::vector<Tensor>& saved, const NormInput& in, const NormFactors& f) {
  for (const Tensor& t : {in.x, in.scale, f.mean, f.inv_std, f.scale, f.shift}) saved.push_back(t);
}
struct Kept {
  const Tensor &x, &gamma;
  NormFactors factors;
  Tensor dx, d_gamma, d_beta;
  Kept(const Tensor* saved, const Place* places)
      : x(saved[0]),
        gamma(saved[1]),
        factors{saved[2], saved[3], saved[4], saved[5]},
        dx(like(x)),
        d_gamma(overwritable(places[1], gamma.shape(), x.device())),
        d_beta(overwritable(places[2], gamma.shape(), x.device())) {}
  NormBack back() { return {x, factors, gamma, dx, d_gamma, d_beta}; }
};

}  // namespace

Tensor inverse_std(const NormInput& in) {
  const Tensor inv_std = like(in.running_var);
  for_each(in.x.device(), inv_std.numel(),
           InverseStd{in.running_var.as<float>(), inv_std.as<float>(), in.options.eps});
  return inv_std;
}

Tensor norm_by_passes(const char* op, const NormInput& a, const NormInput* b, const Tensor& add,
                      bool relu) {
  using Relu = NormGradient::Relu;
  std::vector<Tensor> inputs{a.x, a.scale, a.shift};
  if (b)
    inputs.insert(inputs.end(), {b->x, b->scale, b->shift});
  else
    inputs.push_back(add);
  const Relu mask = !relu ? Relu::none : b || add.defined() ? Relu::bits : Relu::factors;
  const NormFactors fa = factors_of(a), fb = b ? factors_of(*b) : NormFactors{};
  Tensor y = like(a.x), bits;
  const bool record_it = wants_grad(inputs);
  if (record_it && mask == Relu::bits)
    bits = Tensor::empty({fused::norm_mask_bytes(y)}, DType::u8, y.device());
  fused::norm_apply(a.x, fa,
                    {.add = add.defined() ? &add : nullptr,
                     .second = b ? &b->x : nullptr,
                     .second_factors = &fb,
                     .relu = relu,
                     .mask = bits.defined() ? &bits : nullptr},
                    y);
  if (!record_it) return y;
  std::vector<Tensor> saved{bits};
  keep(saved, a, fa);
  if (b) keep(saved, *b, fb);
  const bool two = b != nullptr, want_add = !two && wants(add);
  record(op, y, inputs, std::move(saved),
         [mask, two, want_add](const Tensor& dy, const std::vector<Tensor>& kept,
                               const Places& places) {
           Kept one(&kept[1], &places[0]);
           const NormGradient g{.dy = dy, .relu = mask, .mask = kept[0]};
           if (two) {
             Kept other(&kept[1 + kKept], &places[3]);
             const NormBack second = other.back();
             fused::norm_back(g, one.back(), &second);
             return Grads{one.dx, one.d_gamma, one.d_beta, other.dx, other.d_gamma, other.d_beta};
           }
           // Without a ReLU the gradient of the added branch is dy itself: nothing to compute.
           Tensor d_add = !want_add ? Tensor() : mask == Relu::none ? dy : like(one.x);
           fused::norm_back(g, one.back(), nullptr,
                            want_add && mask != Relu::none ? &d_add : nullptr);
           return Grads{one.dx, one.d_gamma, one.d_beta, d_add};
         });
  return y;
}

Tensor pool_by_passes(const char* op, const NormInput& a) {
  const NormFactors f = factors_of(a);
  const Shape& s = a.x.shape();
  const Shape pooled{s[0], (s[1] - 1) / 2 + 1, (s[2] - 1) / 2 + 1, s[3]};
  Tensor y = Tensor::empty(pooled, a.x.dtype(), a.x.device()),
         taken = Tensor::empty(pooled, DType::u8, a.x.device());
  fused::stem_pool(a.x, f, y, taken);
  if (!wants_grad({a.x, a.scale, a.shift})) return y;
  std::vector<Tensor> saved{taken};
  keep(saved, a, f);
  record(op, y, {a.x, a.scale, a.shift}, std::move(saved),
         [](const Tensor& dy, const std::vector<Tensor>& kept, const Places& places) {
           Kept one(&kept[1], &places[0]);
           fused::norm_back({.from = NormGradient::From::pooled, .dy = dy, .taken = kept[0]},
                            one.back());
           return Grads{one.dx, one.d_gamma, one.d_beta};
         });
  return y;
}

}  // namespace gossamer::detail
