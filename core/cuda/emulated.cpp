// A GPU emulated on a CPU: the fused passes, block by block, the stem's convolution on pairs of
// pixels, gradients added in place. What a GPU leaves to its vendor is left to the CPU's best
// backend. Slow; for tests, which thus see every op as on a GPU without one.
#include "gossamer/core/blocks.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/cuda/fused.h"
#include "gossamer/core/cuda/stem.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/kernel.h"

namespace gossamer {
namespace {

class CudaEmulated final : public FusedBackend {
 public:
  const char* name() const override { return "cuda_emulated"; }

  void gemm(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, bool add) override {
    vendor_.gemm(ta, tb, a, b, c, add);
  }
  void conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) override {
    if (convolves_in_pairs(g, x.dtype()))
      stem::conv(*this, g, x, w, y);
    else
      engine_of(g).conv(g, x, w, y);
  }
  void conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) override {
    vendor_.conv_dx(g, dy, w, dx);
  }
  bool conv_dx_add(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) override {
    const Tensor before = dx.clone();
    vendor_.conv_dx(g, dy, w, dx);
    accumulate(dx, before);
    return true;
  }
  void conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) override {
    if (convolves_in_pairs(g, x.dtype()))
      stem::conv_dw(*this, g, x, dy, dw);
    else
      engine_of(g).conv_dw(g, x, dy, dw);
  }

 protected:
  bool convolves_in_pairs(const ConvGeometry& g, DType) const override { return stem::fits(g); }
  // Sums in f32, as the vendor has them, and like there no more memory than the result's in f32.
  bool conv_with_tail(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
                      const Tensor& add, bool relu, Tensor& y) override {
    const auto in_f32 = [](const Tensor& t) {
      return t.dtype() == DType::f32 ? t : t.to(DType::f32);
    };
    Tensor sums = y.dtype() == DType::f32 ? y : Tensor::empty(y.shape());
    engine_of(g).conv(g, in_f32(x), in_f32(w), sums);
    with_floating(y.dtype(), "conv_with_tail", [&]<class T>() {
      const float* const sum = sums.as<float>();
      const T *const offset = bias.as<T>(), *const added = add.defined() ? add.as<T>() : nullptr;
      T* const to = y.as<T>();
      for (i64 i = 0; i < y.numel(); ++i) {
        const float v = sum[i] + (added ? load(added, i) : 0.0f) + load(offset, i % g.k);
        store(to, i, relu && 0.0f > v ? 0.0f : v);  // in this order a NaN stays NaN
      }
    });
    return true;
  }

 private:
  // The CPU's best pads alike before and behind.
  Backend& engine_of(const ConvGeometry& g) {
    const bool alike =
        (g.h + 2 * g.padding - i64{g.dilation} * (g.r - 1) - 1) / g.stride + 1 == g.ho;
    return alike ? vendor_ : backend("reference");
  }
  Backend& vendor_ = backend(backend_names().front());
};

}  // namespace

Backend& cuda_emulated_backend() {
  static auto& it = *new CudaEmulated;
  return it;
}

}  // namespace gossamer
