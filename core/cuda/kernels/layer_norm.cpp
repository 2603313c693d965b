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

// f.template operator()<T, lanes>(rows); lanes 0: a row that does not fit a block's registers, or
// that vectors of eight cannot read. rows: EveryRow, or RowsOfEach of short ones, the heads of q
// and k.
template <class F>
void with_rows(const RowNorm& n, std::initializer_list<const Tensor*> tensors, F&& f) {
  const i64 cols = n.x.shape(-1);
  const bool whole = fits_vectors(cols, tensors);
  with_floating(n.x.dtype(), "layer_norm", [&]<class T>() {
    if (n.rows.all > 1) {
      if (whole && cols <= RowLanes<32>::most_cols)
        f.template operator()<T, 32>(n.rows);
      else
        f.template operator()<T, 0>(n.rows);
    } else if (whole && cols <= RowLanes<32>::most_cols) {
      f.template operator()<T, 32>(EveryRow());
    } else if (whole && cols <= RowLanes<64>::most_cols) {
      f.template operator()<T, 64>(EveryRow());
    } else if (whole && cols <= RowLanes<128>::most_cols) {
      f.template operator()<T, 128>(EveryRow());
    } else if (whole && cols <= RowLanes<256>::most_cols) {
      f.template operator()<T, 256>(EveryRow());
    } else {
      f.template operator()<T, 0>(EveryRow());
    }
  });
}

}  // namespace

void FusedBackend::layer_norm(const RowNorm& n, const Tensor* add, Tensor* sum, Tensor& y) {
  const i64 cols = n.x.shape(-1), rows = n.count();
  with_rows(n, {&n.x, add, sum, &y, &n.scale, &n.shift}, [&]<class T, int lanes>(auto which) {
    using Rows = decltype(which);
    const auto* more = add ? add->as<T>() : nullptr;
    T* const to = add ? sum->as<T>() : nullptr;
    if constexpr (lanes > 0) {
      const LayerNormForward<T, lanes, Rows> pass{
          n.x.as<T>(), more,      n.scale.as<float>(), floats_of(n.shift),    rows, cols, n.eps,
          to,          y.as<T>(), floats_of(n.mean),   n.inv_std.as<float>(), which};
      for_each_block(y.device(), pass.blocks(), pass);
    } else {
      for_each_block(y.device(), rows,
                     AnyNormForward<T, Rows>{n.x.as<T>(), more, n.scale.as<float>(),
                                             floats_of(n.shift), cols, n.eps, to, y.as<T>(),
                                             floats_of(n.mean), n.inv_std.as<float>(), which});
    }
  });
}

void FusedBackend::layer_norm_back(const RowNorm& n, const Tensor& dy, bool accumulate, Tensor& dx,
                                   const Tensor& d_scale, const Tensor& d_shift) {
  const i64 cols = n.x.shape(-1), rows = n.count();
  const Device device = dy.device();
  const auto partial_of = [&](i64 parts) { return Scratch(parts * 2 * cols, device); };
  const auto join = [&](const Scratch& partial, i64 parts) {
    const JoinParts<2, FinishRowNorms> all{
        partial.data(), parts, cols, {floats_of(d_scale), floats_of(d_shift)}};
    for_each_block(device, all.blocks(), all);
  };
  with_rows(n, {&n.x, &dy, &dx, &n.scale}, [&]<class T, int lanes>(auto which) {
    using Rows = decltype(which);
    if constexpr (lanes > 0) {
      using Pass = LayerNormBackward<T, lanes, Rows>;
      const i64 parts = std::min(Pass::groups_of(rows), kBlocks);
      const Scratch partial = partial_of(parts);
      for_each_block(device, parts,
                     Pass{n.x.as<T>(), dy.as<T>(), n.scale.as<float>(), floats_of(n.mean),
                          n.inv_std.as<float>(), rows, cols, parts, accumulate, dx.as<T>(),
                          partial.data(), which});
      join(partial, parts);
    } else {
      const i64 parts = std::min(rows, kBlocksOfSums);
      const Scratch partial = partial_of(parts);
      for_each_block(
          device, parts,
          AnyNormBackward<T, Rows>{n.x.as<T>(), dy.as<T>(), n.scale.as<float>(), floats_of(n.mean),
                                   n.inv_std.as<float>(), rows, cols, parts, accumulate, dx.as<T>(),
                                   partial.data(), which});
      join(partial, parts);
    }
  });
}

}  // namespace gossamer
