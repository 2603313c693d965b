// matmul, linear and joined_linear: shape checks and gradients around the backend's products.
#include <algorithm>
#include <array>
#include <type_traits>

#include "gossamer/core/backend.h"
#include "gossamer/core/ops/activation.h"
#include "gossamer/core/ops/op_helpers.h"
#include "gossamer/core/ops/sum_columns.h"

namespace gossamer {
namespace {

void check_types(const char* op, const Tensor& a, const Tensor& b) {
  check<ShapeError>(a.dtype() == b.dtype(), op, ": ", a.shape(), " is ", a.dtype(), " but ",
                    b.shape(), " is ", b.dtype(), "; cast one of them");
}

template <class Op, class Y, class B>
struct Finish {  // y = f(z + bias?), the sum kept if wanted
  const float* z;
  const B* bias;
  Y *sum, *y;
  i64 cols;
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) {
      const i64 i = r * cols + c;
      float v = load(z, i);
      if (bias) v += load(bias, c);
      if (sum) store(sum, i, v);
      store(y, i, Op::f(v));
    }
  }
};

// y = activation(x w' + bias), rounded once; z, if defined: the argument of the activation.
void product(const Tensor& x, const Tensor& w, const Tensor& bias, Activation activation, Tensor& y,
             const Tensor& z) {
  Backend& engine = backend(x.device());
  if (!bias.defined() && activation == Activation::none)
    return engine.gemm(false, true, x, w, y, false);
  if (engine.linear(x, w, bias, activation, y, z)) return;
  const i64 n = y.shape(0), d = y.shape(1);
  Tensor sums = y.dtype() == DType::f32 ? y : Tensor::empty({n, d}, DType::f32, y.device());
  engine.gemm(false, true, x, w, sums, false);
  const DType bias_type = bias.defined() ? bias.dtype() : DType::f32;
  with_floating(y.dtype(), bias_type, "linear", [&]<class Y, class B>() {
    with_activation(activation, [&]<class Op>() {
      for_each_row(y.device(), n, d,
                   Finish<Op, Y, B>{sums.as<float>(), bias.defined() ? bias.as<B>() : nullptr,
                                    z.defined() ? z.as<Y>() : nullptr, y.as<Y>(), d});
    });
  });
}

// From the gradient g of the result, in one pass: returns that of the activation's argument, and
// sums its rows into d_bias, f32 [d], if defined. at: what the activation's derivative is a
// function of, of g's type.
Tensor activation_back(Activation activation, const Tensor& g, const Tensor& at, Tensor& d_bias) {
  const i64 n = g.shape(0), d = g.shape(1);
  if (activation == Activation::none) {
    if (d_bias.defined())
      d_bias = detail::sum_broadcast(g, {detail::BroadcastKind::trailing, n, d}, {d}, DType::f32);
    return g;
  }
  Tensor dz = Tensor::empty(g.shape(), g.dtype(), g.device());
  with_floating(g.dtype(), "linear", [&]<class T>() {
    with_activation(activation, [&]<class Op>() {
      if constexpr (!std::is_same_v<Op, Identity>) {
        const ActivationBack<Op, T> back{g.as<T>(), at.as<T>(), dz.as<T>(), d};
        if (d_bias.defined())
          sum_columns(g.device(), n, d, back, d_bias.as<float>());
        else if (!g.device().is_cpu() && back.in_eights())
          for_each(g.device(), n * d / 8, ActivationBackInEights<Op, T>{back});
        else
          for_each(g.device(), n * d, back);
      }
    });
  });
  return dz;
}

// The parts as one tensor: what they are parts of, else a copy. They are alike but in the first
// extent.
Tensor joined(const std::vector<Tensor>& parts) {
  if (Tensor whole = whole_of(parts); whole.defined()) return whole.detach();
  i64 rows = 0;
  for (const Tensor& part : parts) rows += part.shape(0);
  const Tensor& first = parts[0];
  Tensor out = Tensor::empty(first.rank() == 1 ? Shape{rows} : Shape{rows, first.shape(1)},
                             first.dtype(), first.device());
  rows = 0;
  for (const Tensor& part : parts) {
    out.slice(rows, rows + part.shape(0)).copy_from(part);
    rows += part.shape(0);
  }
  return out;
}

}  // namespace

Tensor joined_linear(const Tensor& x, const std::vector<Tensor>& weights,
                     const std::vector<Tensor>& biases) {
  const char* op = "joined_linear";
  check<ShapeError>(!weights.empty() && (biases.empty() || biases.size() == weights.size()), op,
                    ": ", weights.size(), " weights and ", biases.size(), " biases");
  detail::check_floating(op, "x", x);
  std::vector<i64> ends;
  for (const Tensor& w : weights) {
    detail::check_floating(op, "w", w);
    detail::check_device(op, x, w);
    check<ShapeError>(x.rank() >= 2 && w.rank() == 2 && x.shape(-1) == w.shape(1), op, ": x ",
                      x.shape(), " and w ", w.shape(), " do not fit; wanted x [..., K], w [D, K]");
    check_types(op, x, w);
    ends.push_back((ends.empty() ? 0 : ends.back()) + w.shape(0));
  }
  for (std::size_t i = 0; i < biases.size(); ++i) {
    detail::check_floating(op, "bias", biases[i]);
    detail::check_device(op, x, biases[i]);
    check<ShapeError>(
        biases[i].shape() == Shape{weights[i].shape(0)} && biases[i].dtype() == biases[0].dtype(),
        op, ": bias is ", biases[i].dtype(), " ", biases[i].shape(), ", weight ",
        weights[i].shape(), "; wanted [D], all of one type");
  }
  // one linear layer outside the tape, and its gradients cut into parts
  std::vector<Tensor> inputs{x};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  const Tensor w = joined(weights), bias = biases.empty() ? Tensor() : joined(biases);
  Tensor y = linear(x.detach(), w, bias);
  if (!wants_grad(inputs)) return y;
  const i64 k = x.shape(-1), d = w.shape(0), n = x.numel() / k;
  const Tensor place = whole_of(weights).defined() ? weights[0].slot()->part.grad : Tensor();
  const bool want_x = detail::wants(x), want_w = std::ranges::any_of(weights, detail::wants);
  const DType x_type = detail::grad_type(x), w_type = detail::grad_type(weights[0]),
              bias_type = detail::grad_type(biases.empty() ? Tensor() : biases[0]);
  record(op, y, inputs, {want_w ? x.detach().reshape({n, k}) : Tensor(), want_x ? w : Tensor()},
         [=, sx = x.shape(), biased = !biases.empty()](
             const Tensor& dy, const std::vector<Tensor>& saved, const Places& places) {
           const std::size_t count = ends.size();
           Grads grads(places.size());
           Backend& engine = backend(dy.device());
           const Tensor g = dy.reshape({n, d});
           if (want_x) {
             grads[0] = Tensor::empty(sx, x_type, g.device());
             Tensor dx = grads[0].reshape({n, k});
             engine.gemm(false, false, g, saved[1], dx, false);
           }
           Tensor dw, d_bias;
           if (want_w) {
             const Shape sw{d, k};
             const bool fresh = std::none_of(places.begin() + 1, places.begin() + 1 + count,
                                             [](const Place& p) { return p.holds_sum; });
             dw = place.defined() && fresh ? place : Tensor::empty(sw, w_type, g.device());
             engine.gemm(true, false, g, saved[0], dw, false);
           }
           if (biased)
             d_bias =
                 detail::sum_broadcast(g, {detail::BroadcastKind::trailing, n, d}, {d}, bias_type);
           for (std::size_t i = 0; i < count; ++i) {
             const i64 begin = i == 0 ? 0 : ends[i - 1];
             if (want_w) grads[1 + i] = dw.slice(begin, ends[i]);
             if (biased) grads[1 + count + i] = d_bias.slice(begin, ends[i]);
           }
           return grads;
         });
  return y;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  detail::check_floating("matmul", "first operand", a);
  detail::check_floating("matmul", "second operand", b);
  detail::check_device("matmul", a, b);
  check<ShapeError>(a.rank() == 2 && b.rank() == 2 && a.shape(1) == b.shape(0),
                    "matmul: ", a.shape(), " and ", b.shape(),
                    " do not fit; wanted [M, K] x [K, N]",
                    a.rank() == 2 ? "" : " (reshape({N, -1}) makes rows)");
  check_types("matmul", a, b);
  Tensor y = Tensor::empty({a.shape(0), b.shape(1)}, a.dtype(), a.device());
  backend(a.device()).gemm(false, false, a, b, y, false);
  if (!wants_grad({a, b})) return y;
  const bool want_a = detail::wants(a), want_b = detail::wants(b);
  const DType a_type = detail::grad_type(a), b_type = detail::grad_type(b);
  const Shape sa = a.shape(), sb = b.shape();
  record("matmul", y, {a, b}, {want_b ? a : Tensor(), want_a ? b : Tensor()},
         [=](const Tensor& g, const std::vector<Tensor>& saved) {
           Grads grads(2);
           Backend& engine = backend(g.device());
           if (want_a) {  // da = g b^T
             grads[0] = Tensor::empty(sa, a_type, g.device());
             engine.gemm(false, true, g, saved[1], grads[0], false);
           }
           if (want_b) {  // db = a^T g
             grads[1] = Tensor::empty(sb, b_type, g.device());
             engine.gemm(true, false, saved[0], g, grads[1], false);
           }
           return grads;
         });
  return y;
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias, Activation activation) {
  detail::check_floating("linear", "x", x);
  detail::check_floating("linear", "w", w);
  detail::check_device("linear", x, w);
  check<ShapeError>(x.rank() >= 2 && w.rank() == 2 && x.shape(-1) == w.shape(1), "linear: x ",
                    x.shape(), " and w ", w.shape(), " do not fit; wanted x [..., K] and w [D, K]");
  check_types("linear", x, w);
  const i64 d = w.shape(0), k = w.shape(1), n = k > 0 ? x.numel() / k : x.shape(0);
  if (bias.defined()) {
    detail::check_floating("linear", "bias", bias);
    detail::check_device("linear", x, bias);
    check<ShapeError>(bias.shape() == Shape{d}, "linear: bias is ", bias.shape(), ", weight ",
                      w.shape(), " wants a bias of [", d, "]");
  }
  std::array<i64, Shape::max_rank> extents{};
  *std::copy(x.shape().begin(), x.shape().end() - 1, extents.begin()) = d;
  const Tensor rows = x.detach().reshape({n, k});
  Tensor y = Tensor::empty(Shape::of(extents.data(), x.rank()), x.dtype(), x.device());
  const bool backward = wants_grad({x, w, bias});
  Tensor flat = y.reshape({n, d}), z;
  if (backward && !from_output(activation)) z = Tensor::empty({n, d}, y.dtype(), y.device());
  product(rows, w, bias, activation, flat, z);
  if (!backward) return y;
  const bool want_x = detail::wants(x), want_w = detail::wants(w), want_bias = detail::wants(bias);
  const DType x_type = detail::grad_type(x), w_type = detail::grad_type(w),
              bias_type = detail::grad_type(bias);
  Tensor at;  // what the derivative of the activation looks at
  if (activation != Activation::none) at = z.defined() ? z : flat;
  record("linear", y, {x, w, bias}, {want_w ? rows : Tensor(), want_x ? w : Tensor(), at},
         [=, sx = x.shape(), sw = w.shape()](const Tensor& dy, const std::vector<Tensor>& saved,
                                             const Places& places) {
           Grads grads(3);
           Backend& engine = backend(dy.device());
           Tensor g = dy.reshape({n, d}), d_bias;
           if (want_bias) d_bias = Tensor::empty({d}, DType::f32, g.device());
           g = activation_back(activation, g, saved[2], d_bias);
           if (want_bias) grads[2] = detail::as_type(d_bias, bias_type);
           if (want_x) {  // dx = g w
             grads[0] = Tensor::empty(sx, x_type, g.device());
             Tensor dx = grads[0].reshape({n, k});
             engine.gemm(false, false, g, saved[1], dx, false);
           }
           if (want_w) {  // dw = g^T x
             grads[1] = w_type == DType::f32 ? detail::overwritable(places[1], sw, g.device())
                                             : Tensor::empty(sw, w_type, g.device());
             engine.gemm(true, false, g, saved[0], grads[1], false);
           }
           return grads;
         });
  return y;
}

}  // namespace gossamer
