// Launches of pool.h.
#include "gossamer/core/cuda/kernels/pool.h"

#include "gossamer/core/cuda/fused.h"

namespace gossamer {
namespace {

using namespace kernels;

float factor_of(const PoolGeometry& p) { return 1.0f / static_cast<float>(p.kernel * p.kernel); }

template <bool maximum>
void forward(const char* op, const PoolGeometry& p, const Tensor& x, Tensor& y,
             const Tensor& taken) {
  if (y.numel() == 0) return;
  check_pixels(op, x, y);
  const Tiles tiles = Tiles::over(p.n * p.ho * p.wo, p.c, 2 * kBlocksOfPasses, false, 1);
  with_vectors(op, x, p.c, {&x, &y, &taken}, [&]<class T, bool whole>() {
    for_each_block(x.device(), tiles.blocks(),
                   PoolForward<T, whole, maximum>{
                       tiles, Pool::of(p), x.as<T>(), y.as<T>(),
                       taken.defined() ? taken.as<std::uint8_t>() : nullptr, factor_of(p)});
  });
}
template <bool maximum>
void backward(const char* op, const PoolGeometry& p, const Tensor& dy, const Tensor& taken,
              Tensor& dx) {
  if (dx.numel() == 0) return;
  check_pixels(op, dx, dy);
  const Tiles tiles = Tiles::over(p.n * p.h * p.w, p.c, 2 * kBlocksOfPasses, false, 1);
  with_vectors(op, dx, p.c, {&dx, &dy, &taken}, [&]<class T, bool whole>() {
    for_each_block(dx.device(), tiles.blocks(),
                   PoolBackward<T, whole, maximum>{tiles, Pool::of(p), dy.as<T>(),
                                                   maximum ? taken.as<std::uint8_t>() : nullptr,
                                                   dx.as<T>(), factor_of(p)});
  });
}

}  // namespace

void FusedBackend::max_pool(const PoolGeometry& p, const Tensor& x, Tensor& y,
                            const Tensor& taken) {
  forward<true>("max_pool2d", p, x, y, taken);
}
void FusedBackend::max_pool_back(const PoolGeometry& p, const Tensor& dy, const Tensor& taken,
                                 Tensor& dx) {
  backward<true>("max_pool2d", p, dy, taken, dx);
}
void FusedBackend::avg_pool(const PoolGeometry& p, const Tensor& x, Tensor& y) {
  forward<false>("avg_pool2d", p, x, y, {});
}
void FusedBackend::avg_pool_back(const PoolGeometry& p, const Tensor& dy, Tensor& dx) {
  backward<false>("avg_pool2d", p, dy, {}, dx);
}

void FusedBackend::global_average(const Tensor& x, Tensor& y) {
  const i64 cols = x.shape(3), pixels = x.shape(1) * x.shape(2);
  with_vectors("global_avg_pool", x, cols, {&x, &y}, [&]<class T, bool whole>() {
    for_each(x.device(), x.shape(0) * ((cols + 7) / 8),
             GlobalAverage<T, whole>{x.as<T>(), y.as<T>(), pixels, cols}, 64);
  });
}

void FusedBackend::global_average_back(const Tensor& dy, Tensor& dx) {
  const i64 cols = dx.shape(3), pixels = dx.shape(1) * dx.shape(2);
  with_vectors("global_avg_pool", dx, cols, {&dy, &dx}, [&]<class T, bool whole>() {
    for_each(dx.device(), dx.shape(0) * pixels * ((cols + 7) / 8),
             GlobalAverageBack<T, whole>{dy.as<T>(), dx.as<T>(), pixels, cols,
                                         1.0f / static_cast<float>(pixels)},
             1 << 12);
  });
}

}  // namespace gossamer
