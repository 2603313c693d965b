// The GPU's backend: cuDNN's convolutions and attention, cuBLASLt's products. It checks nothing
// that the ops have checked before.
#include "gossamer/core/cuda/backend_cuda.h"

#include <map>
#include <mutex>

#include "gossamer/core/cuda/cublas_gemm.h"
#include "gossamer/core/cuda/fused.h"
#include "gossamer/core/cuda/stem.h"

namespace gossamer {

#ifdef GOSSAMER_HAS_CUDA
namespace {

using cudnn::ConvOp;

class Cuda final : public FusedBackend {
 public:
  Cuda(Device device, const CudaOptions& options)
      : device_(device),
        options_(options),
        conv_(device, {options.autotune, options.plan_file, options.deterministic}),
        attention_(device, {options.autotune, options.plan_file, options.deterministic}),
        gemm_(device, {options.autotune && !options.deterministic, options.plan_file}) {}
  const char* name() const override { return "cuda"; }
  cudnn::ConvEngine& convolutions() { return conv_; }
  const cudnn::AttentionEngine& attentions() const { return attention_; }
  const cublas::Gemm& products() const { return gemm_; }

  void gemm(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, bool add) override {
    if (c.numel() == 0) return;
    if (a.numel() > 0)
      gemm_.run(ta, tb, a, b, c, {.add = add}, options_.tf32);
    else if (!add)
      c.zero();
  }

  // In the product's epilogue where the vendor can: true matrices (as PyTorch asks of them, too),
  // and GPT-2's GELU, whose argument it keeps in rows of 16 bytes. Its ReLU makes 0 of NaN. It adds
  // a bias of the result's type only: of 16 bits, if the result is.
  bool linear(const Tensor& x, const Tensor& w, const Tensor& bias, Activation activation,
              Tensor& y, const Tensor& z) override {
    const bool matrices = x.shape(0) > 1 && x.shape(1) > 1 && w.shape(0) > 1,
               on_16_bytes = y.shape(1) * static_cast<i64>(size_of(y.dtype())) % 16 == 0,
               known = activation == Activation::none ||
                       (activation == Activation::gelu_tanh && (on_16_bytes || !z.defined()));
    if (!matrices || !known || !bias.defined()) return false;
    const Tensor added = bias.dtype() == y.dtype() ? bias : bias.detach().to(y.dtype());
    return gemm_.try_run(false, true, x, w, y, {.bias = added, .activation = activation, .z = z},
                         options_.tf32);
  }

  void attention(const Attention& a, Tensor& y, const Tensor& log_sums) override {
    if (!cudnn::fits(a) || !attention_.forward(a, y, log_sums))
      FusedBackend::attention(a, y, log_sums);
  }
  void attention_back(const Attention& a, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                      const PackedRows& dq, const PackedRows& dk, const PackedRows& dv) override {
    if (!cudnn::fits(a) || !attention_.backward(a, y, log_sums, dy, dq, dk, dv))
      FusedBackend::attention_back(a, y, log_sums, dy, dq, dk, dv);
  }

  void conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) override {
    if (y.numel() == 0) return;
    if (convolves_in_pairs(g, x.dtype()))
      stem::conv(*this, g, x, w, y);
    else
      run(ConvOp::forward, g, x, w, y);
  }
  void conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) override {
    if (dx.numel() == 0) return;
    if (dy.numel() == 0) return dx.zero();
    run(ConvOp::backward_data, g, dx, w, dy);
  }
  bool conv_dx_add(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) override {
    return dx.numel() == 0 || dy.numel() == 0 ||
           conv_.try_run(problem(ConvOp::backward_data, g, dy, true),
                         {dx.data(), w.data(), dy.data()});
  }
  void conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) override {
    if (dy.numel() == 0) return dw.zero();
    if (convolves_in_pairs(g, x.dtype())) return stem::conv_dw(*this, g, x, dy, dw);
    if (dw.dtype() == x.dtype()) return run(ConvOp::backward_filter, g, x, dw, dy);
    // cuDNN writes the type of the images; it sums in f32 inside.
    Tensor rounded = Tensor::empty(dw.shape(), x.dtype(), device_);
    run(ConvOp::backward_filter, g, x, rounded, dy);
    dw.copy_from(rounded);
  }

 protected:
  // In 16 bits only. In f32, while cuDNN 9.14's plans for the gradient of the 4 x 4 filter (padded
  // by 2 before and 1 behind) were tried on an H200, one made an illegal access, which ends the
  // process's use of the GPU.
  bool convolves_in_pairs(const ConvGeometry& g, DType type) const override {
    return type != DType::f32 && stem::fits(g);
  }
  bool conv_with_tail(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
                      const Tensor& add, bool relu, Tensor& y) override {
    cudnn::ConvProblem p = problem(ConvOp::forward, g, x, false);
    p.bias = true, p.add = add.defined(), p.relu = relu;
    return conv_.try_run(
        p, {x.data(), w.data(), y.data(), bias.data(), add.defined() ? add.data() : nullptr});
  }

 private:
  void run(ConvOp op, const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& y) {
    conv_.run(problem(op, g, x, false), {x.data(), w.data(), y.data()});
  }
  cudnn::ConvProblem problem(ConvOp op, const ConvGeometry& g, const Tensor& typed,
                             bool accumulate) const {
    return cudnn::problem_of(op, typed.dtype(), g, accumulate,
                             options_.tf32 && typed.dtype() == DType::f32);
  }

  Device device_;
  CudaOptions options_;
  cudnn::ConvEngine conv_;
  cudnn::AttentionEngine attention_;
  cublas::Gemm gemm_;
};

std::mutex mutex;
CudaOptions& options() {
  static CudaOptions set;
  return set;
}
// never destroyed: the vendor's libraries may be gone when statics are
std::map<int, Cuda*>& backends() {
  static auto* const all = new std::map<int, Cuda*>;
  return *all;
}

Cuda& backend_of(Device device) {
  (void)cuda::properties(device);  // says what is wrong with the device, if anything
  const std::scoped_lock lock(mutex);
  Cuda*& made = backends()[device.index];
  if (!made) made = new Cuda(device, options());
  return *made;
}

}  // namespace

void configure_cuda(const CudaOptions& wanted) {
  const std::scoped_lock lock(mutex);
  check<DeviceError>(
      backends().empty(),
      "configure_cuda: a GPU is in use already; set its options before the first op on it");
  options() = wanted;
}
Backend& cuda_backend(Device device) { return backend_of(device); }
cudnn::ConvEngine& conv_engine(Device device) { return backend_of(device).convolutions(); }
const cudnn::AttentionEngine& attention_engine(Device device) {
  return backend_of(device).attentions();
}
const cublas::Gemm& gemm_engine(Device device) { return backend_of(device).products(); }
#else
void configure_cuda(const CudaOptions&) {}
Backend& cuda_backend(Device device) {
  fail<DeviceError>("backend: ", device, ": ", cuda::why_none());
}
cudnn::ConvEngine& conv_engine(Device device) {
  fail<DeviceError>("conv_engine: ", device, ": ", cuda::why_none());
}
const cudnn::AttentionEngine& attention_engine(Device device) {
  fail<DeviceError>("attention_engine: ", device, ": ", cuda::why_none());
}
const cublas::Gemm& gemm_engine(Device device) {
  fail<DeviceError>("gemm_engine: ", device, ": ", cuda::why_none());
}
#endif

}  // namespace gossamer
