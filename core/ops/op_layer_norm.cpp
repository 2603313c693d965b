// layer_norm, alone and of a sum: checks and the tape around the backend's passes.
#include "gossamer/core/backend.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

RowNorm norm_of(const char* op, const Tensor& x, const Tensor& scale, const Tensor& shift,
                float eps) {
  detail::check_floating(op, "input", x);
  check<ShapeError>(x.rank() >= 1 && x.shape(-1) > 0, op, ": input is ", x.shape(),
                    "; wanted [..., C]");
  const i64 cols = x.shape(-1), rows = x.numel() / cols;
  const auto check_vector = [&](const char* what, const Tensor& t) {
    check<ShapeError>(t.defined() && t.shape() == Shape{cols} && t.dtype() == DType::f32, op, ": ",
                      what, " is ", t.defined() ? name_of(t.dtype()) : "undefined", " ",
                      t.defined() ? t.shape() : Shape{}, ", input ", x.shape(), " wants f32 [",
                      cols, "]");
    detail::check_device(op, x, t);
  };
  check_vector("scale", scale);
  if (shift.defined()) check_vector("shift", shift);
  const auto vector = [&] { return Tensor::empty({rows}, DType::f32, x.device()); };
  return {x, scale, shift, eps, vector(), vector()};
}

Tensor like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }

// The tape of y = norm(n.x). The gradient joins what has reached n.x already: in a residual stream
// that of all later layers, so nothing is added in a pass of its own.
void record_norm(const char* op, Tensor& y, const RowNorm& n) {
  record(op, y, {n.x, n.scale, n.shift}, {n.x, n.scale, n.mean, n.inv_std},
         [eps = n.eps, want_shift = detail::wants(n.shift)](
             const Tensor& dy, const std::vector<Tensor>& t, const Places& places) {
           const bool joins = places[0].holds_sum && places[0].at.dtype() == dy.dtype();
           Tensor dx = joins ? places[0].at : like(t[0]);
           const Shape channels = t[1].shape();
           const Tensor d_scale = detail::overwritable(places[1], channels, dy.device()),
                        d_shift = want_shift
                                      ? detail::overwritable(places[2], channels, dy.device())
                                      : Tensor();
           backend(dy.device())
               .layer_norm_back({t[0], t[1], {}, eps, t[2], t[3]}, dy, joins, dx, d_scale, d_shift);
           return Grads{dx, d_scale, d_shift};
         });
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, float eps) {
  const RowNorm n = norm_of("layer_norm", x, scale, shift, eps);
  Tensor y = like(x);
  backend(x.device()).layer_norm(n, nullptr, nullptr, y);
  record_norm("layer_norm", y, n);
  return y;
}

NormedSum add_layer_norm(const Tensor& x, const Tensor& add, const Tensor& scale,
                         const Tensor& shift, float eps) {
  const char* op = "add_layer_norm";
  RowNorm n = norm_of(op, x, scale, shift, eps);
  detail::check_floating(op, "add", add);
  check<ShapeError>(add.shape() == x.shape() && add.dtype() == x.dtype(), op, ": add is ",
                    add.dtype(), " ", add.shape(), ", input is ", x.dtype(), " ", x.shape(),
                    "; they must be alike");
  detail::check_device(op, x, add);
  NormedSum out{like(x), like(x)};
  backend(x.device()).layer_norm(n, &add, &out.sum, out.y);
  // one pass, two steps of the tape: the sum, whose gradient goes to both, and its norm
  record(op, out.sum, {x, add}, {}, [](const Tensor& g, const std::vector<Tensor>&) {
    return Grads{g, g};
  });
  n.x = out.sum;
  record_norm("layer_norm", out.y, n);
  return out;
}

}  // namespace gossamer
