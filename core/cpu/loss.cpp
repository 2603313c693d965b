// Softmax cross-entropy on the CPU, row by row.
#include "gossamer/core/cpu/cpu_backend.h"
#include "gossamer/core/ops/softmax_row.h"

namespace gossamer {
namespace {

// loss[r] = -sum_k q_k log p_k;  dz = p - q;  log p_k = z_k - top - log_sum, subtracted one after
// the other: in one number a large top would swallow the digits of log_sum.
template <class T>
struct LossRow {
  const T* logits;
  const std::int32_t* labels;
  float* loss;
  T* dz;  // null: not wanted
  i64 cols;
  float smoothing;
  void operator()(i64 r) const {
    const T* z = logits + r * cols;
    float top, log_sum;
    row_statistics(z, cols, top, log_sum);
    float value = (1 - smoothing) * (log_sum - (load(z, labels[r]) - top));
    if (smoothing > 0) {
      float all = 0;
      for (i64 c = 0; c < cols; ++c) all += load(z, c) - top;
      value += smoothing * (log_sum - all / static_cast<float>(cols));
    }
    loss[r] = value;
    if (!dz) return;
    const float spread = smoothing / static_cast<float>(cols);
    for (i64 c = 0; c < cols; ++c) {
      const float p = expf(load(z, c) - top - log_sum);
      const float q = spread + (c == labels[r] ? 1 - smoothing : 0.0f);
      store(dz, r * cols + c, p - q);
    }
  }
};

}  // namespace

void CpuBackend::softmax_loss(const Tensor& logits, const Tensor& labels, float label_smoothing,
                              Tensor& losses, const Tensor& dz) {
  const i64 rows = logits.shape(0), cols = logits.shape(1);
  with_floating(logits.dtype(), "cross_entropy", [&]<class T>() {
    for_each(logits.device(), rows,
             LossRow<T>{logits.as<T>(), labels.as<std::int32_t>(), losses.as<float>(),
                        dz.defined() ? dz.as<T>() : nullptr, cols, label_smoothing},
             (1 << 12) / cols + 1);
  });
}

}  // namespace gossamer
