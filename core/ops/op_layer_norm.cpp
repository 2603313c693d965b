// layer_norm and rms_norm, alone, of a sum and of heads: checks and the tape around the backend's
// passes.
#include "gossamer/core/backend.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

enum class Form { layer, rms };

void check_vector(const char* op, const char* what, const Tensor& t, i64 cols, const Tensor& x) {
  check<ShapeError>(t.defined() && t.shape() == Shape{cols} && t.dtype() == DType::f32, op, ": ",
                    what, " is ", t.defined() ? name_of(t.dtype()) : "undefined", " ",
                    t.defined() ? t.shape() : Shape{}, ", input ", x.shape(), " wants f32 [", cols,
                    "]");
  detail::check_device(op, x, t);
}

RowNorm norm_of(const char* op, Form form, const Tensor& x, const Tensor& scale,
                const Tensor& shift, float eps) {
  detail::check_floating(op, "input", x);
  check<ShapeError>(x.rank() >= 1 && x.shape(-1) > 0, op, ": input is ", x.shape(),
                    "; wanted [..., C]");
  const i64 cols = x.shape(-1), rows = x.numel() / cols;
  check_vector(op, "scale", scale, cols, x);
  if (shift.defined()) check_vector(op, "shift", shift, cols, x);
  const auto vector = [&] { return Tensor::empty({rows}, DType::f32, x.device()); };
  return {x, scale, shift, eps, form == Form::layer ? vector() : Tensor(), vector()};
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

Tensor norm(const char* op, const RowNorm& n) {
  Tensor y = like(n.x);
  backend(n.x.device()).layer_norm(n, nullptr, nullptr, y);
  record_norm(op, y, n);
  return y;
}

// sum_op, norm_op: names of its two steps on the tape
NormedSum norm_of_sum(const char* sum_op, const char* norm_op, RowNorm n, const Tensor& add) {
  const char* op = sum_op;
  const Tensor x = n.x;
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
  record_norm(norm_op, out.y, n);
  return out;
}

// The columns that follow the first `from` of each row, which nothing changes.
template <class T>
struct KeepColumns {
  const T* x;
  T* y;
  i64 cols, from;
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    const i64 at = r * cols + from;
    for (i64 c = at + begin; c < at + end; ++c) y[c] = x[c];
  }
};
void keep_columns(const Tensor& x, const Tensor& y, i64 from) {
  with_floating(x.dtype(), "rms_norm_heads", [&]<class T>() {
    const i64 cols = x.shape(-1);
    for_each_row(x.device(), x.numel() / cols, cols - from,
                 KeepColumns<T>{x.as<T>(), y.as<T>(), cols, from});
  });
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, float eps) {
  return norm("layer_norm", norm_of("layer_norm", Form::layer, x, scale, shift, eps));
}

Tensor rms_norm(const Tensor& x, const Tensor& scale, float eps) {
  return norm("rms_norm", norm_of("rms_norm", Form::rms, x, scale, {}, eps));
}

NormedSum add_layer_norm(const Tensor& x, const Tensor& add, const Tensor& scale,
                         const Tensor& shift, float eps) {
  const char* op = "add_layer_norm";
  return norm_of_sum(op, "layer_norm", norm_of(op, Form::layer, x, scale, shift, eps), add);
}

NormedSum add_rms_norm(const Tensor& x, const Tensor& add, const Tensor& scale, float eps) {
  const char* op = "add_rms_norm";
  return norm_of_sum(op, "rms_norm", norm_of(op, Form::rms, x, scale, {}, eps), add);
}

Tensor rms_norm_heads(const Tensor& qkv, i64 kv_heads, const Tensor& q_scale, const Tensor& k_scale,
                      float eps) {
  const char* op = "rms_norm_heads";
  detail::check_floating(op, "qkv", qkv);
  const i64 size = q_scale.defined() ? q_scale.numel() : 0;
  check<ShapeError>(size > 0 && kv_heads > 0 && qkv.rank() == 3 && qkv.shape(2) % size == 0 &&
                        qkv.shape(2) / size > 2 * kv_heads,
                    op, ": qkv is ", qkv.shape(), " with scales of ", size, " and ", kv_heads,
                    " heads of keys; wanted [B, T, (H + 2 K) D]");
  check_vector(op, "q_scale", q_scale, size, qkv);
  check_vector(op, "k_scale", k_scale, size, qkv);
  const i64 all = qkv.shape(2) / size, heads = all - 2 * kv_heads,
            tokens = qkv.shape(0) * qkv.shape(1), kept = (heads + kv_heads) * size;
  const auto part = [=](const Tensor& x, const Tensor& scale, const Tensor& inv_std, bool keys) {
    const RowsOfEach rows{keys ? heads : 0, keys ? kv_heads : heads, all};
    return RowNorm{x.reshape({tokens * all, size}), scale, {}, eps, {}, inv_std, rows};
  };
  const auto vector = [&](i64 n) { return Tensor::empty({n}, DType::f32, qkv.device()); };
  const Tensor x = qkv.detach(), q_inverse = vector(tokens * heads),
               k_inverse = vector(tokens * kv_heads);
  Tensor y = like(x), rows = y.reshape({tokens * all, size});
  Backend& engine = backend(x.device());
  engine.layer_norm(part(x, q_scale.detach(), q_inverse, false), nullptr, nullptr, rows);
  engine.layer_norm(part(x, k_scale.detach(), k_inverse, true), nullptr, nullptr, rows);
  keep_columns(x, y, kept);
  record(op, y, {qkv, q_scale, k_scale}, {x, q_scale, k_scale, q_inverse, k_inverse},
         [=](const Tensor& dy, const std::vector<Tensor>& t, const Places& places) {
           const Tensor dx = like(t[0]), d_rows = dy.reshape({tokens * all, size});
           Tensor to = dx.reshape({tokens * all, size});
           Grads scales;
           for (const std::size_t k : {1, 2}) {
             scales.push_back(detail::overwritable(places[k], {size}, dy.device()));
             backend(dy.device())
                 .layer_norm_back(part(t[0], t[k], t[k + 2], k == 2), d_rows, false, to,
                                  scales.back(), {});
           }
           keep_columns(dy, dx, kept);
           return Grads{dx, scales[0], scales[1]};
         });
  return y;
}

}  // namespace gossamer
