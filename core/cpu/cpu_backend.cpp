// Batch norm on the CPU: what follows from the batch's statistics, and what is composed.
#include "gossamer/core/cpu/cpu_backend.h"

#include "gossamer/core/ops/kernel.h"

namespace gossamer {
namespace {

constexpr std::uint8_t kNoTap = 255;

// Max pooling of the stem: 3 x 3, stride 2, padding 1.
PoolGeometry stem_pool(const Shape& x, const Shape& y) {
  return {x[0], x[1], x[2], x[3], y[1], y[2], 3, 2, 1};
}

// Where the maximum is zero the ReLU lets no gradient through.
void close_taps(const Tensor& y, const Tensor& taken) {
  with_floating(y.dtype(), "batch_norm_pool", [&]<class T>() {
    const T* value = y.as<T>();
    std::uint8_t* tap = taken.as<std::uint8_t>();
    for_each(y.device(), y.numel(),
             [=](i64 i) { tap[i] = static_cast<float>(value[i]) == 0 ? kNoTap : tap[i]; });
  });
}

}  // namespace

void CpuBackend::norm_statistics(Norm& n, float eps, const NormRunning& running) {
  batch_statistics(n, eps);
  const i64 channels = n.scale.numel(), rows = n.x.numel() / channels;
  const float unbias = static_cast<float>(rows) / static_cast<float>(rows - 1);
  const float *scale = n.scale.as<float>(), *shift = n.shift.as<float>(),
              *mean = n.mean.as<float>(), *inv_std = n.inv_std.as<float>();
  float *a = n.a.as<float>(), *b = n.b.as<float>(),
        *running_mean = running.mean.defined() ? running.mean.as<float>() : nullptr,
        *running_var = running.var.defined() ? running.var.as<float>() : nullptr;
  for (i64 c = 0; c < channels; ++c) {
    a[c] = scale[c] * inv_std[c];
    b[c] = shift[c] - mean[c] * a[c];
    const double inv = static_cast<double>(inv_std[c]),
                 var = 1 / (inv * inv) - static_cast<double>(eps);
    if (running_mean) running_mean[c] += running.momentum * (mean[c] - running_mean[c]);
    if (running_var)
      running_var[c] +=
          running.momentum * (static_cast<float>(var > 0 ? var : 0) * unbias - running_var[c]);
  }
}

Tensor CpuBackend::norm_apply(const Norm& n, const NormTail& tail, bool backward, Tensor& y) {
  if (tail.pool) {
    Tensor normalised = Tensor::empty(n.x.shape(), n.x.dtype()),
           taken = backward ? Tensor::empty(y.shape(), DType::u8) : Tensor();
    batch_norm(n, nullptr, nullptr, true, normalised);
    max_pool(stem_pool(n.x.shape(), y.shape()), normalised, y, taken);
    if (backward) close_taps(y, taken);
    return taken;
  }
  return batch_norm(n, tail.add, tail.second, tail.relu, y);
}

void CpuBackend::norm_back(const Norm& n, const NormTail& tail, const Tensor& mask,
                           const Tensor& dy, const NormGrads& grads, const NormGrads* second,
                           Tensor* d_add) {
  if (tail.pool) {
    Tensor g = Tensor::empty(n.x.shape(), n.x.dtype());
    max_pool_back(stem_pool(n.x.shape(), dy.shape()), dy, mask, g);
    return batch_norm_back(n, false, {}, g, grads, nullptr);
  }
  if (!second) return batch_norm_back(n, tail.relu, mask, dy, grads, d_add);
  Tensor g = Tensor::empty(n.x.shape(), n.x.dtype());
  batch_norm_back(n, tail.relu, mask, dy, grads, &g);
  batch_norm_back(*tail.second, false, {}, g, *second, nullptr);
}

}  // namespace gossamer
