// Batch norm forward: launches of norm.h. Sums go through the tensor backwards, so that the
// elementwise pass after them, which goes forwards, begins with what the cache still holds.
#include "gossamer/core/cuda/kernels/norm.h"

#include "gossamer/core/cuda/fused.h"

namespace gossamer {

using namespace kernels;

void FusedBackend::norm_statistics(Norm& n, float eps, const NormRunning& running) {
  const i64 cols = n.x.shape(-1), rows = n.x.numel() / cols;
  const Tiles tiles = Tiles::over(rows, cols, kBlocksOfSums, true);
  const Scratch partial(2 * tiles.parts * cols, n.x.device());
  with_vectors("batch_norm", n.x, cols, {&n.x}, [&]<class T, bool whole>() {
    for_each_block(n.x.device(), tiles.blocks(),
                   NormSums<T, whole>{tiles, n.x.as<T>(), partial.data()});
    const FinishStatistics<T> finish{n.x.as<T>(),
                                     n.scale.as<float>(),
                                     n.shift.as<float>(),
                                     static_cast<double>(rows),
                                     eps,
                                     running.momentum,
                                     n.mean.as<float>(),
                                     n.inv_std.as<float>(),
                                     n.a.as<float>(),
                                     n.b.as<float>(),
                                     running.mean.defined() ? running.mean.as<float>() : nullptr,
                                     running.var.defined() ? running.var.as<float>() : nullptr};
    const JoinParts<2, FinishStatistics<T>> join{partial.data(), tiles.parts, cols, finish};
    for_each_block(n.x.device(), join.blocks(), join);
  });
}

namespace {

void apply_and_pool(const Norm& n, Tensor& y, const Tensor& taken) {
  check_pixels("batch_norm_pool", n.x, y);
  const i64 cols = n.x.shape(3);
  const Tiles tiles = Tiles::over(y.numel() / cols, cols, 2 * kBlocksOfPasses, false, 1);
  const auto extent = [](const Tensor& t, int d) { return static_cast<unsigned>(t.shape(d)); };
  with_vectors(
      "batch_norm_pool", n.x, cols, {&n.x, &y, &taken, &n.a, &n.b}, [&]<class T, bool whole>() {
        for_each_block(n.x.device(), tiles.blocks(),
                       NormPool<T, whole>{tiles, n.x.as<T>(), n.a.as<float>(), n.b.as<float>(),
                                          y.as<T>(), taken.as<std::uint8_t>(), extent(n.x, 1),
                                          extent(n.x, 2), extent(y, 1), extent(y, 2)});
      });
}

}  // namespace

Tensor FusedBackend::norm_apply(const Norm& n, const NormTail& tail, bool backward, Tensor& y) {
  const i64 cols = n.x.shape(-1), rows = n.x.numel() / cols;
  if (tail.pool) {
    Tensor taken = Tensor::empty(y.shape(), DType::u8, y.device());
    apply_and_pool(n, y, taken);
    return taken;
  }
  const Norm* two = tail.second;
  const Tensor* other = two ? &two->x : tail.add;
  Tensor bits = backward && tail.relu && other
                    ? Tensor::empty({rows * ((cols + 7) / 8)}, DType::u8, y.device())
                    : Tensor();
  const Tiles tiles = Tiles::over(rows, cols, kBlocksOfPasses, false);
  with_vectors("batch_norm", n.x, cols,
               {&n.x, &y, &n.a, &n.b, other, two ? &two->a : nullptr, two ? &two->b : nullptr},
               [&]<class T, bool whole>() {
                 const auto go = [&]<Join join>() {
                   for_each_block(
                       n.x.device(), tiles.blocks(),
                       NormApply<T, whole, join>{
                           tiles, n.x.as<T>(), other ? other->as<T>() : nullptr, n.a.as<float>(),
                           n.b.as<float>(), two ? two->a.as<float>() : nullptr,
                           two ? two->b.as<float>() : nullptr, y.as<T>(),
                           bits.defined() ? bits.as<std::uint8_t>() : nullptr, tail.relu});
                 };
                 if (two)
                   go.template operator()<Join::norm>();
                 else if (other)
                   go.template operator()<Join::add>();
                 else
                   go.template operator()<Join::none>();
               });
  return bits;
}

}  // namespace gossamer
