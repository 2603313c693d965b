// The CPU engine: our own kernels (products, Winograd for 3x3 convolutions, direct convolutions
// where the stride or the image rules Winograd out, batch norm fused with addition and ReLU), and
// oneDNN, in builds that have it, for the convolutions where it is faster. It checks nothing that
// the ops have checked before. The choice depends on shape, type and CPU only, never on a
// measurement, so that a resumed run repeats the same bits.
#include <mutex>

#include "gossamer/core/cpu/attention.h"
#include "gossamer/core/cpu/batch_norm.h"
#include "gossamer/core/cpu/cpu_backend.h"
#include "gossamer/core/cpu/direct_conv.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/layer_norm.h"
#include "gossamer/core/cpu/loss.h"
#include "gossamer/core/cpu/onednn_calls.h"
#include "gossamer/core/cpu/pointwise_conv.h"
#include "gossamer/core/cpu/products.h"
#include "gossamer/core/cpu/winograd.h"

namespace gossamer {

Backend& cpu_own_engine();

namespace {

// Each packed form is made when the first call needs it.
class CpuPackedConv final : public PackedConv {
 public:
  // with_onednn: the weights are also kept in oneDNN's layouts
  CpuPackedConv(const Tensor& w, bool with_onednn)
      : onednn(with_onednn ? cpu::onednn_keep_weights(w) : nullptr),
        plain_(with_onednn ? Tensor() : w) {}
  Tensor weights() override { return onednn ? cpu::onednn_weights_as_they_came(*onednn) : plain_; }
  const cpu::PackedWeights& winograd(const ConvGeometry& g) {
    std::call_once(winograd_once_, [&] { winograd_ = cpu::winograd_pack(g, weights()); });
    return winograd_;
  }
  const cpu::PackedWeights& direct(const ConvGeometry& g) {
    std::call_once(direct_once_, [&] { direct_ = cpu::direct_pack(g, weights()); });
    return direct_;
  }
  const std::shared_ptr<cpu::OneDnnWeights> onednn;

 private:
  const Tensor plain_;
  std::once_flag winograd_once_, direct_once_;
  cpu::PackedWeights winograd_, direct_;
};

enum class Pass { forward, dx, dw };

class Engine final : public CpuBackend {
 public:
  Engine(const char* name, bool with_onednn) : name_(name), onednn_(with_onednn) {}
  const char* name() const override { return name_; }

  // oneDNN's order of summing depends on the number of rows that a thread takes; ours does not. In
  // f32 on one thread ours takes 1.0 to 1.1 times as long where w is square. It is faster where a
  // row is a multiple of a page long, with bias and activation in the same pass, and with few rows
  // (tests/bench/RESULTS-KERNELS.md).
  void gemm(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, bool add) override {
    if (c.numel() == 0) return;
    if (a.numel() == 0) return backend("reference").gemm(ta, tb, a, b, c, add);
    cpu::product(ta, tb, a, b, c, {.add = add});
  }

  bool linear(const Tensor& x, const Tensor& w, const Tensor& bias, Activation activation,
              Tensor& y, const Tensor& z) override {
    if (x.numel() == 0 || w.numel() == 0) return false;
    cpu::product(false, true, x, w, y, {.bias = bias, .activation = activation, .z = z});
    return true;
  }

  void conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) override {
    if (y.numel() == 0) return;
    if (use_winograd(g, x.dtype())) return cpu::winograd_conv(g, x, w, y);
    if (use_product(Pass::forward, g, x.dtype())) return cpu::pointwise_conv(g, x, w, y);
    if (needs_f32(x.dtype())) {
      Tensor wide = Tensor::empty(y.shape());
      conv(g, x.to(DType::f32), w.to(DType::f32), wide);
      return y.copy_from(wide);
    }
    if (use_direct(Pass::forward, g, x.dtype())) return cpu::direct_conv(g, x, w, y);
    if (!cpu::onednn_conv(g, x, w, y)) cpu_own_engine().conv(g, x, w, y);
  }

  std::unique_ptr<PackedConv> pack_conv(const Tensor& w) override {
    return std::make_unique<CpuPackedConv>(w, onednn_);
  }
  void conv_inference(const ConvGeometry& g, const Tensor& x, PackedConv& weights,
                      const ConvTail& tail, Tensor& y) override {
    if (y.numel() == 0) return;
    auto& packed = static_cast<CpuPackedConv&>(weights);
    if (use_winograd_in_inference(g, x.dtype()))
      return cpu::winograd_conv(g, x, packed.winograd(g), tail, y);
    if (needs_f32(x.dtype())) return CpuBackend::conv_inference(g, x, weights, tail, y);
    if (!onednn_ && g.groups > 1) return CpuBackend::conv_inference(g, x, weights, tail, y);
    if (use_direct(Pass::forward, g, x.dtype()))
      return cpu::direct_conv(g, x, packed.direct(g), tail, y);
    if (!cpu::onednn_conv(g, x, *packed.onednn, tail, y))
      CpuBackend::conv_inference(g, x, weights, tail, y);
  }

  void conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) override {
    if (dx.numel() == 0) return;
    if (use_winograd(g, dy.dtype())) return cpu::winograd_conv_dx(g, dy, w, dx);
    if (use_product(Pass::dx, g, dy.dtype())) return cpu::pointwise_conv_dx(g, dy, w, dx);
    if (needs_f32(dy.dtype())) {
      Tensor wide = Tensor::empty(dx.shape());
      conv_dx(g, dy.to(DType::f32), w.to(DType::f32), wide);
      return dx.copy_from(wide);
    }
    if (use_direct(Pass::dx, g, dy.dtype())) return cpu::direct_conv_dx(g, dy, w, dx);
    if (!cpu::onednn_conv_dx(g, dy, w, dx)) cpu_own_engine().conv_dx(g, dy, w, dx);
  }

  // oneDNN cannot add to dx. So even where its dx of 1 x 1 is faster, ours is used here: it saves
  // the pass that adds.
  bool conv_dx_add(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) override {
    if (dx.numel() == 0 || dy.numel() == 0) return false;
    if (use_winograd(g, dy.dtype()))
      cpu::winograd_conv_dx_add(g, dy, w, dx);
    else if (cpu::is_pointwise(g))
      cpu::pointwise_conv_dx_add(g, dy, w, dx);
    else
      return false;
    return true;
  }

  void conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) override {
    if (dy.numel() == 0) return dw.zero();
    if (use_winograd(g, x.dtype()) || (g.stride == 1 && cpu::winograd_fits(g)))
      return cpu::winograd_conv_dw(g, x, dy, dw);
    if (use_product(Pass::dw, g, x.dtype())) return cpu::pointwise_conv_dw(g, x, dy, dw);
    if (needs_f32(x.dtype())) return conv_dw(g, x.to(DType::f32), dy.to(DType::f32), dw);
    if (use_direct(Pass::dw, g, x.dtype())) return cpu::direct_conv_dw(g, x, dy, dw);
    if (!cpu::onednn_conv_dw(g, x, dy, dw)) cpu_own_engine().conv_dw(g, x, dy, dw);
  }

  void layer_norm(const RowNorm& n, const Tensor* add, Tensor* sum, Tensor& y) override {
    cpu::layer_norm(n, add, sum, y);
  }
  void layer_norm_back(const RowNorm& n, const Tensor& dy, bool accumulate, Tensor& dx,
                       const Tensor& d_scale, const Tensor& d_shift) override {
    cpu::layer_norm_back(n, dy, accumulate, dx, d_scale, d_shift);
  }
  void attention(const Attention& a, Tensor& y, const Tensor& log_sums) override {
    cpu::attention(a, y, log_sums);
  }
  void attention_back(const Attention& a, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                      const PackedRows& dq, const PackedRows& dk, const PackedRows& dv) override {
    cpu::attention_back(a, y, log_sums, dy, dq, dk, dv);
  }
  void softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows& how, Tensor& losses,
                    const Tensor& dz) override {
    cpu::softmax_loss(logits, labels, how, losses, dz);
  }

 protected:
  void batch_statistics(Norm& n, float eps) override { cpu::batch_statistics(n, eps); }
  Tensor batch_norm(const Norm& n, const Tensor* add, const Norm* second, bool relu,
                    Tensor& y) override {
    cpu::batch_norm(n, add, second, relu, y);
    // not in f16, which may have rounded a small number to zero
    const bool recomputable = !add && !second && n.x.dtype() != DType::f16;
    return relu && !recomputable ? y : Tensor();
  }
  void batch_norm_back(const Norm& n, bool relu, const Tensor& mask, const Tensor& dy,
                       const NormGrads& grads, Tensor* d_add) override {
    cpu::batch_norm_back(n, relu, mask.defined() ? &mask : nullptr, dy, grads, d_add);
  }

 private:
  // f16, which is a type of GPUs, and bf16 on a CPU without avx512_bf16: computed in f32 and
  // rounded once at the end. So is bf16 without oneDNN.
  bool needs_f32(DType type) const {
    return type == DType::f16 || (type == DType::bf16 && !(onednn_ && cpu::onednn_has_bf16()));
  }

  // Winograd in f32 beats a direct convolution even in bf16, except in layers so narrow that the
  // transforms outweigh the products (for the gradient of the weights it wins there too). With
  // stride 2 it saves less: 1.4 to 1.6 times as fast as oneDNN on AVX2, 1.1 to 1.5 on AVX-512 in
  // f32, if the tiles fit the image and there are 32 channels.
  bool use_winograd(const ConvGeometry& g, DType type) const {
    if (!cpu::winograd_fits(g)) return false;
    if (g.stride == 1) return type == DType::f32 || needs_f32(type) || g.c * g.k > 16 * 16;
    return type == DType::f32 && g.c >= 32 && g.ho % 4 == 0 && g.wo % 4 == 0;
  }

  // With few tiles, reading the transformed weights takes too long: they are four times as large
  // and exceed the caches. So in the last stage of a ResNet on one image of 224 pixels.
  bool use_winograd_in_inference(const ConvGeometry& g, DType type) const {
    constexpr i64 least = 16;
    return use_winograd(g, type) && g.n * ((g.ho + 3) / 4) * ((g.wo + 3) / 4) >= least;
  }

  // A window of one pixel is a product (pointwise_conv.h): in f32 at least as fast as oneDNN's
  // convolution, in bf16 slower on large images. The gradient of the weights is always ours:
  // oneDNN's bits change with the number of images.
  bool use_product(Pass pass, const ConvGeometry& g, DType type) const {
    return cpu::is_pointwise(g) && (pass == Pass::dw || type != DType::bf16 || needs_f32(type));
  }

  // Where our direct convolution is faster than oneDNN's, in f32 on one thread (Xeon, 2.3 GHz;
  // oneDNN's time / ours, forward, dx, dw, of the layers of ResNet-18 and ResNet-50):
  //
  //                              AVX2                 AVX-512
  //   3x3, stride 2, c >= 64     1.1   1.1   1.2      .9    1.0   1.2
  //   3x3, stride 2, c < 64      .9    .9    .8       .9    .8    .8
  //   stem                       .5    never .4       .3    never .2
  bool use_direct(Pass pass, const ConvGeometry& g, DType type) const {
    if (!onednn_) return true;
    if (g.groups > 1 || g.c < 64 || g.stride == 1 || g.r * g.s == 1 || type != DType::f32)
      return false;
    return cpu::kernel_set() == "avx2" || (cpu::kernel_set() == "avx512" && pass == Pass::dw);
  }

  const char* const name_;
  const bool onednn_;
};

}  // namespace

// Never destroyed: threads may compute while the program exits.
Backend& cpu_engine() {
  static Engine& it = *new Engine("cpu", cpu::has_onednn());
  return it;
}
Backend& cpu_own_engine() {
  static Engine& it = *new Engine("cpu_own", false);
  return it;
}

}  // namespace gossamer
