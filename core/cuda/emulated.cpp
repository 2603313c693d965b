// A GPU emulated on a CPU: the fused passes, block by block, the stem's convolution on pairs of
// pixels, gradients added in place. What a GPU leaves to its vendor is left to the CPU's best
// backend. Slow; for tests, which thus see every op as on a GPU without one.
#include "gossamer/core/blocks.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/cuda/fused.h"
#include "gossamer/core/cuda/stem.h"

namespace gossamer {
namespace {

class CudaEmulated final : public FusedBackend {
 public:
  const char* name() const override { return "cuda_emulated"; }

  void gemm(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, bool add) override {
    vendor_.gemm(ta, tb, a, b, c, add);
  }
  void conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) override {
    if (stem::fits(g))
      stem::conv(backend("reference"), g, x, w, y);
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
    if (stem::fits(g))
      stem::conv_dw(backend("reference"), g, x, dy, dw);
    else
      vendor_.conv_dw(g, x, dy, dw);
  }

 private:
  Backend& vendor_ = backend(backend_names().front());
};

}  // namespace

Backend& cuda_emulated_backend() {
  static auto& it = *new CudaEmulated;
  return it;
}

}  // namespace gossamer
