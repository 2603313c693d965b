// Launches of layer_norm.h.
#include "gossamer/core/cuda/kernels/layer_norm.h"

#include <algorithm>

#include "gossamer/core/cuda/fused.h"
#include "gossamer/core/ops/row_sums.h"

namespace gossamer {
namespace {

using namespace kernels;

// Backward: two blocks fit on each of the 132 multiprocessors of an H100 or H200. On an A100, with
// 108, they are 1.2 waves: the number must not depend on the GPU, or results would.
constexpr i64 kBlocks = 264;

float* floats_of(const Tensor& t) { return t.defined() ? t.as<float>() : nullptr; }

// f.template operator()<T, lanes>(); lanes 0: a row that does not fit a block's registers, or that
// vectors of eight cannot read.
template <class F>
void with_rows(i64 cols, const Tensor& x, std::initializer_list<const Tensor*> tensors, F&& f) {
  const bool whole = fits_vectors(cols, tensors);
  with_floating(x.dtype(), "layer_norm", [&]<class T>() {
    if (whole && cols <= RowLanes<32>::most_cols)
      f.template operator()<T, 32>();
    else if (whole && cols <= RowLanes<64>::most_cols)
      f.template operator()<T, 64>();
    else if (whole && cols <= RowLanes<128>::most_cols)
      f.template operator()<T, 128>();
    else if (whole && cols <= RowLanes<256>::most_cols)
      f.template operator()<T, 256>();
    else
      f.template operator()<T, 0>();
  });
}

}  // namespace

void FusedBackend::layer_norm(const RowNorm& n, const Tensor* add, Tensor* sum, Tensor& y) {
  const i64 cols = n.x.shape(-1), rows = n.x.numel() / cols;
  with_rows(cols, n.x, {&n.x, add, sum, &y, &n.scale, &n.shift}, [&]<class T, int lanes>() {
    const auto* more = add ? add->as<T>() : nullptr;
    T* const to = add ? sum->as<T>() : nullptr;
    if constexpr (lanes > 0) {
      const LayerNormForward<T, lanes> pass{
          n.x.as<T>(), more,      n.scale.as<float>(), floats_of(n.shift),   rows, cols, n.eps,
          to,          y.as<T>(), n.mean.as<float>(),  n.inv_std.as<float>()};
      for_each_block(y.device(), pass.blocks(), pass);
    } else {
      for_each_block(
          y.device(), rows,
          AnyNormForward<T>{n.x.as<T>(), more, n.scale.as<float>(), floats_of(n.shift), cols, n.eps,
                            to, y.as<T>(), n.mean.as<float>(), n.inv_std.as<float>()});
    }
  });
}

void FusedBackend::layer_norm_back(const RowNorm& n, const Tensor& dy, bool accumulate, Tensor& dx,
                                   const Tensor& d_scale, const Tensor& d_shift) {
  const i64 cols = n.x.shape(-1), rows = n.x.numel() / cols;
  const Device device = dy.device();
  const auto partial_of = [&](i64 parts) { return Scratch(parts * 2 * cols, device); };
  const auto join = [&](const Scratch& partial, i64 parts) {
    const JoinParts<2, FinishRowNorms> all{
        partial.data(), parts, cols, {floats_of(d_scale), floats_of(d_shift)}};
    for_each_block(device, all.blocks(), all);
  };
  with_rows(cols, n.x, {&n.x, &dy, &dx, &n.scale}, [&]<class T, int lanes>() {
    if constexpr (lanes > 0) {
      using Pass = LayerNormBackward<T, lanes>;
      const i64 parts = std::min(Pass::groups_of(rows), kBlocks);
      const Scratch partial = partial_of(parts);
      for_each_block(
          device, parts,
          Pass{n.x.as<T>(), dy.as<T>(), n.scale.as<float>(), n.mean.as<float>(),
               n.inv_std.as<float>(), rows, cols, parts, accumulate, dx.as<T>(), partial.data()});
      join(partial, parts);
    } else {
      const i64 parts = std::min(rows, kBlocksOfSums);
      const Scratch partial = partial_of(parts);
      for_each_block(device, parts,
                     AnyNormBackward<T>{n.x.as<T>(), dy.as<T>(), n.scale.as<float>(),
                                        n.mean.as<float>(), n.inv_std.as<float>(), rows, cols,
                                        parts, accumulate, dx.as<T>(), partial.data()});
      join(partial, parts);
    }
  });
}

}  // namespace gossamer
