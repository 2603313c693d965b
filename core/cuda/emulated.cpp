// A GPU emulated on a CPU: the fused passes, block by block, the stem's convolution on pairs of
// pixels, gradients added in place. What a GPU leaves to its vendor is left to the CPU's best
// backend. Slow; for tests, which thus see every op as on a GPU without one.
#include "gossamer/core/blocks.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/cuda/fused.h"
#include "gossamer/core/cuda/stem.h"
#include "gossamer/core/ops.h"

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
  // sums in f32, as the vendor has them
  bool conv_with_tail(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
                      const Tensor& add, bool relu, Tensor& y) override {
    Tensor sums = Tensor::empty(y.shape());
    engine_of(g).conv(g, x.to(DType::f32), w.to(DType::f32), sums);
    if (add.defined()) accumulate(sums, add);
    const Tensor all = gossamer::add(sums, bias.to(DType::f32));
    y.copy_from((relu ? gossamer::relu(all) : all).to(y.dtype()));
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
