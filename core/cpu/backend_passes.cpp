// The way of a GPU on a CPU: batch norm, pooling and loss go through the passes of fused.h, block
// by block, the stem's convolution sees pairs of pixels, and gradients are added in place. What a
// GPU leaves to its vendor is left to the CPU's best backend. Slow; for tests, which so see every
// op's GPU form without a GPU.
#include "gossamer/core/backend.h"
#include "gossamer/core/stem_conv.h"
#include "gossamer/core/update.h"

namespace gossamer {
namespace {

class Passes final : public Backend {
 public:
  const char* name() const override { return "passes"; }

  void gemm(bool ta, bool tb, float alpha, const Tensor& a, const Tensor& b, float beta,
            Tensor& c) override {
    vendor_.gemm(ta, tb, alpha, a, b, beta, c);
  }
  void conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) override {
    if (is_stem(g))
      stem_conv(backend("reference"), g, x, w, y);
    else
      vendor_.conv(g, x, w, y);
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
    if (is_stem(g))
      stem_conv_dw(backend("reference"), g, x, dy, dw);
    else
      vendor_.conv_dw(g, x, dy, dw);
  }

 private:
  Backend& vendor_ = backend(backend_names().front());
};

}  // namespace

Backend& passes_backend() {
  static Passes it;
  return it;
}

}  // namespace gossamer
