// conv2d: shape checks and the gradient; the sums themselves are the backend's. For inference: what
// follows the sums, as a pass of its own for backends that have nothing better.
#include "gossamer/core/backend.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

// w, type: of the weights
ConvGeometry geometry_of(const Tensor& x, const Shape& w, DType type, const ConvOptions& o) {
  detail::check_floating("conv2d", "input", x);
  check<ShapeError>(x.rank() == 4 && w.rank() == 4, "conv2d: input ", x.shape(), ", weight ", w,
                    "; wanted input [N, H, W, C] and weight [K, R, S, C/groups]");
  check<ShapeError>(o.stride >= 1 && o.padding >= 0 && o.dilation >= 1 && o.groups >= 1,
                    "conv2d: stride ", o.stride, ", padding ", o.padding, ", dilation ", o.dilation,
                    ", groups ", o.groups,
                    "; wanted stride, dilation, groups >= 1 and padding >= 0");
  const ConvGeometry g{
      x.shape(0),
      x.shape(1),
      x.shape(2),
      x.shape(3),
      w[0],
      w[1],
      w[2],
      (x.shape(1) + 2 * o.padding - i64{o.dilation} * (w[1] - 1) - 1) / o.stride + 1,
      (x.shape(2) + 2 * o.padding - i64{o.dilation} * (w[2] - 1) - 1) / o.stride + 1,
      o.stride,
      o.padding,
      o.dilation,
      o.groups};
  check<ShapeError>(g.c == w[3] * o.groups && g.c > 0, "conv2d: input ", x.shape(), " has ", g.c,
                    " channels but weight ", w, " wants ", w[3] * o.groups, " (", w[3], " x ",
                    o.groups, " groups); images are NHWC, weights [K, R, S, C/groups]");
  check<ShapeError>(g.k % o.groups == 0 && g.k > 0, "conv2d: input ", x.shape(), ", weight ", w,
                    ": ", g.k, " filters do not divide into ", o.groups, " groups");
  check<ShapeError>(
      g.r > 0 && g.s > 0 && x.shape(1) + 2 * o.padding >= i64{o.dilation} * (g.r - 1) + 1 &&
          x.shape(2) + 2 * o.padding >= i64{o.dilation} * (g.s - 1) + 1,
      "conv2d: input ", x.shape(), " with padding ", o.padding, " is smaller than weight ", w,
      " with dilation ", o.dilation, "; use a larger image or more padding");
  check<ShapeError>(x.dtype() == type, "conv2d: input ", x.shape(), " is ", x.dtype(),
                    " but weight ", w, " is ", type, "; cast one of them");
  return g;
}

template <class T>
struct FinishRow {  // y = relu?(sums + bias (+ y))
  const T* sums;
  const float* bias;
  T* y;
  i64 cols;
  bool add, relu;
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) {
      const i64 at = r * cols + c;
      const float v = load(sums, at) + bias[c] + (add ? load(y, at) : 0.0f);
      store(y, at, relu && 0.0f > v ? 0.0f : v);  // in this order a NaN stays NaN
    }
  }
};

}  // namespace

std::unique_ptr<PackedConv> Backend::pack_conv(const Tensor& w) {
  struct AsTheyCame final : PackedConv {
    explicit AsTheyCame(const Tensor& t) : w(t) {}
    Tensor weights() override { return w; }
    const Tensor w;
  };
  return std::make_unique<AsTheyCame>(w);
}

void Backend::conv_inference(const ConvGeometry& g, const Tensor& x, PackedConv& weights,
                             const ConvTail& tail, Tensor& y) {
  Tensor sums = tail.add ? Tensor::empty(y.shape(), y.dtype(), y.device()) : y;
  conv(g, x, weights.weights(), sums);
  with_floating(y.dtype(), "conv_inference", [&]<class T>() {
    for_each_row(
        y.device(), y.numel() / g.k, g.k,
        FinishRow<T>{sums.as<T>(), tail.bias.as<float>(), y.as<T>(), g.k, tail.add, tail.relu});
  });
}

InferenceConv::InferenceConv(const Tensor& w, const Tensor& bias, ConvOptions options)
    : shape_(w.shape()),
      type_(w.dtype()),
      bias_(bias),
      options_(options),
      backend_(&backend(w.device())) {
  detail::check_floating("InferenceConv", "weight", w);
  check<ShapeError>(
      w.rank() == 4 && bias.shape() == Shape{w.shape(0)} && bias.dtype() == DType::f32,
      "InferenceConv: weight ", w.shape(), ", bias ", bias.dtype(), " ", bias.shape(),
      "; wanted weight [K, R, S, C/groups] and bias f32 [K]");
  detail::check_device("InferenceConv", w, bias);
  weights_ = backend_->pack_conv(w.detach());
}

Tensor InferenceConv::operator()(const Tensor& x, bool relu, Tensor add) const {
  const ConvGeometry g = geometry_of(x, shape_, type_, options_);
  const Shape wanted{g.n, g.ho, g.wo, g.k};
  const bool adds = add.defined();
  Tensor y = adds ? std::move(add) : Tensor::empty(wanted, x.dtype(), x.device());
  check<ShapeError>(y.shape() == wanted && y.dtype() == x.dtype(), "InferenceConv: add is ",
                    y.dtype(), " ", y.shape(), ", the result is ", x.dtype(), " ", wanted,
                    "; they must be alike");
  detail::check_device("InferenceConv", x, y);
  detail::check_device("InferenceConv", x, bias_);
  backend_->conv_inference(g, x, *weights_, {bias_, adds, relu}, y);
  return y.detach();
}

Tensor conv2d(const Tensor& x, const Tensor& w, ConvOptions options) {
  detail::check_floating("conv2d", "weight", w);
  detail::check_device("conv2d", x, w);
  const ConvGeometry g = geometry_of(x, w.shape(), w.dtype(), options);
  Tensor y = Tensor::empty({g.n, g.ho, g.wo, g.k}, x.dtype(), x.device());
  backend(x.device()).conv(g, x, w, y);
  if (!wants_grad({x, w})) return y;
  const bool want_x = detail::wants(x), want_w = detail::wants(w);
  const DType w_type = detail::grad_type(w);
  record(
      "conv2d", y, {x, w}, {want_w ? x : Tensor(), want_x ? w : Tensor()},
      [=](const Tensor& dy, const std::vector<Tensor>& saved, const Places& places) {
        Grads grads(2);
        Backend& engine = backend(dy.device());
        if (want_x) {
          const bool joins = places[0].holds_sum && places[0].at.dtype() == dy.dtype();
          grads[0] = joins ? places[0].at : Tensor();
          if (!grads[0].defined() || !engine.conv_dx_add(g, dy, saved[1], grads[0])) {
            grads[0] = Tensor::empty({g.n, g.h, g.w, g.c}, dy.dtype(), dy.device());
            engine.conv_dx(g, dy, saved[1], grads[0]);
          }
        }
        if (want_w) {
          // the weight's window of FlatParams::grads() if it waits for its first gradient, else new
          grads[1] = detail::overwritable(places[1], {g.k, g.r, g.s, g.c / g.groups}, dy.device());
          engine.conv_dw(g, saved[0], dy, grads[1]);
          grads[1] = detail::as_type(grads[1], w_type);
        }
        return grads;
      });
  return y;
}

}  // namespace gossamer
