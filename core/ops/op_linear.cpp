// matmul and linear: shape checks and gradients around the backend's gemm.
#include "gossamer/core/backend.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

void check_matrices(const char* op, const char* wanted, const Tensor& a, const Tensor& b,
                    int b_inner) {
  detail::check_floating(op, "first operand", a);
  detail::check_floating(op, "second operand", b);
  detail::check_device(op, a, b);
  check<ShapeError>(a.rank() == 2 && b.rank() == 2 && a.shape(1) == b.shape(b_inner), op, ": ",
                    a.shape(), " and ", b.shape(), " do not fit; wanted ", wanted,
                    a.rank() == 2 ? "" : " (reshape({N, -1}) makes rows)");
  check<ShapeError>(a.dtype() == b.dtype(), op, ": ", a.shape(), " is ", a.dtype(), " but ",
                    b.shape(), " is ", b.dtype(), "; cast one of them");
}

template <class Y, class B>
struct AddBias {  // y = z + bias
  const float* z;
  const B* bias;
  Y* y;
  i64 cols;
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) store(y, r * cols + c, load(z, r * cols + c) + load(bias, c));
  }
};

// y = x w' + bias; the sum is rounded once, bias included.
void with_bias(const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y) {
  Backend& engine = backend(x.device());
  if (engine.linear(x, w, bias, y)) return;
  Tensor z = y.dtype() == DType::f32 ? y : Tensor::empty(y.shape(), DType::f32, y.device());
  engine.gemm(false, true, 1, x, w, 0, z);
  const i64 n = y.shape(0), d = y.shape(1);
  with_floating(y.dtype(), bias.dtype(), "linear", [&]<class Y, class B>() {
    for_each_row(y.device(), n, d, AddBias<Y, B>{z.as<float>(), bias.as<B>(), y.as<Y>(), d});
  });
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  check_matrices("matmul", "[M, K] x [K, N]", a, b, 0);
  Tensor y = Tensor::empty({a.shape(0), b.shape(1)}, a.dtype(), a.device());
  backend(a.device()).gemm(false, false, 1, a, b, 0, y);
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
             engine.gemm(false, true, 1, g, saved[1], 0, grads[0]);
           }
           if (want_b) {  // db = a^T g
             grads[1] = Tensor::empty(sb, b_type, g.device());
             engine.gemm(true, false, 1, saved[0], g, 0, grads[1]);
           }
           return grads;
         });
  return y;
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  check_matrices("linear", "x [N, K] and w [D, K]", x, w, 1);
  const i64 n = x.shape(0), d = w.shape(0);
  if (bias.defined()) {
    detail::check_floating("linear", "bias", bias);
    detail::check_device("linear", x, bias);
    check<ShapeError>(bias.shape() == Shape{d}, "linear: bias is ", bias.shape(), ", weight ",
                      w.shape(), " wants a bias of [", d, "]");
  }
  Tensor y = Tensor::empty({n, d}, x.dtype(), x.device());
  if (bias.defined())
    with_bias(x, w, bias, y);
  else
    backend(x.device()).gemm(false, true, 1, x, w, 0, y);
  if (!wants_grad({x, w, bias})) return y;
  const bool want_x = detail::wants(x), want_w = detail::wants(w), want_bias = detail::wants(bias);
  const DType x_type = detail::grad_type(x), w_type = detail::grad_type(w),
              bias_type = detail::grad_type(bias);
  const Shape sx = x.shape(), sw = w.shape();
  record("linear", y, {x, w, bias}, {want_w ? x : Tensor(), want_x ? w : Tensor()},
         [=](const Tensor& g, const std::vector<Tensor>& saved) {
           Grads grads(3);
           Backend& engine = backend(g.device());
           if (want_x) {  // dx = g w
             grads[0] = Tensor::empty(sx, x_type, g.device());
             engine.gemm(false, false, 1, g, saved[1], 0, grads[0]);
           }
           if (want_w) {  // dw = g^T x
             grads[1] = Tensor::empty(sw, w_type, g.device());
             engine.gemm(true, false, 1, g, saved[0], 0, grads[1]);
           }
           if (want_bias)
             grads[2] = detail::sum_broadcast(g, {detail::Spread::trailing, n, d}, {d}, bias_type);
           return grads;
         });
  return y;
}

}  // namespace gossamer
