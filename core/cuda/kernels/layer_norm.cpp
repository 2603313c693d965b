// Launches of layer_norm.h.
#include "gossamer/core/cuda/kernels/layer_norm.h"

#include <algorithm>

#include "gossamer/core/cuda/fused.h"

namespace gossamer {
namespace {

float* floats_of(const Tensor& t) { return t.defined() ? t.as<float>() : nullptr; }

}  // namespace

void FusedBackend::layer_norm(const RowNorm& n, const Tensor* add, Tensor* sum, Tensor& y) {
  const i64 cols = n.x.shape(-1), rows = n.x.numel() / cols;
  with_floating(n.x.dtype(), "layer_norm", [&]<class T>() {
    for_each_block(
        y.device(), rows,
        kernels::LayerNormForward<T>{n.x.as<T>(), add ? add->as<T>() : nullptr, n.scale.as<float>(),
                                     floats_of(n.shift), cols, n.eps, add ? sum->as<T>() : nullptr,
                                     y.as<T>(), n.mean.as<float>(), n.inv_std.as<float>()});
  });
}

void FusedBackend::layer_norm_back(const RowNorm& n, const Tensor& dy, bool accumulate, Tensor& dx,
                                   const Tensor& d_scale, const Tensor& d_shift) {
  const i64 cols = n.x.shape(-1), rows = n.x.numel() / cols,
            parts = std::min(rows, kernels::kBlocksOfSums);
  const kernels::Scratch partial(parts * 2 * cols, dy.device());
  with_floating(n.x.dtype(), "layer_norm", [&]<class T>() {
    for_each_block(
        dy.device(), parts,
        kernels::LayerNormBackward<T>{n.x.as<T>(), dy.as<T>(), n.scale.as<float>(),
                                      n.mean.as<float>(), n.inv_std.as<float>(), rows, cols, parts,
                                      accumulate, dx.as<T>(), partial.data()});
  });
  for_each(
      dy.device(), cols,
      kernels::JoinRowNorms{partial.data(), parts, cols, floats_of(d_scale), floats_of(d_shift)});
}

}  // namespace gossamer
