// Pooling of fused.h: checks and launches of pool_kernels.h.
#include "gossamer/core/ops/fused_checks.h"
#include "gossamer/core/ops/pool_kernels.h"

namespace gossamer::fused {
namespace {

using namespace kernels;

void check_pool(const char* op, const PoolGeometry& p, const Tensor& x, const Tensor& y,
                const Tensor& taken) {
  check_type(op, "the picture", x, {p.n, p.h, p.w, p.c}, x.defined() ? x.dtype() : DType::f32,
             x.device());
  check_type(op, "the pooled picture", y, {p.n, p.ho, p.wo, p.c}, x.dtype(), x.device());
  if (taken.defined()) check_type(op, "taken", taken, y.shape(), DType::u8, x.device());
  check<ShapeError>(p.n * p.h * p.w < (i64{1} << 32) && p.n * p.ho * p.wo < (i64{1} << 32), op,
                    ": ", x.shape(), " has 2^32 pixels or more; use a smaller batch");
}
float factor_of(const PoolGeometry& p) { return 1.0f / static_cast<float>(p.kernel * p.kernel); }

// f.template operator()<T, whole>() for type and alignment.
template <class F>
void with_kinds(const char* op, const Tensor& x, const Tensor& y, const Tensor& taken, F&& f) {
  const bool whole = fits_vectors(x.shape(3), {&x, &y, &taken});
  with_floating(x.dtype(), op, [&]<class T>() {
    if (whole)
      f.template operator()<T, true>();
    else
      f.template operator()<T, false>();
  });
}

template <bool maximum>
void forward(const char* op, const PoolGeometry& p, const Tensor& x, Tensor& y,
             const Tensor& taken) {
  check_pool(op, p, x, y, taken);
  const Tiles tiles = Tiles::over(p.n * p.ho * p.wo, p.c, 2 * kBlocksOfPasses, false, 1);
  with_kinds(op, x, y, taken, [&]<class T, bool whole>() {
    for_each_block(x.device(), tiles.blocks(),
                   PoolForward<T, whole, maximum>{
                       tiles, Pool::of(p), x.as<T>(), y.as<T>(),
                       taken.defined() ? taken.as<std::uint8_t>() : nullptr, factor_of(p)});
  });
}
template <bool maximum>
void backward(const char* op, const PoolGeometry& p, const Tensor& dy, const Tensor& taken,
              Tensor& dx) {
  check_pool(op, p, dx, dy, taken);
  check<ShapeError>(!maximum || taken.defined(), op, ": taken is undefined");
  const Tiles tiles = Tiles::over(p.n * p.h * p.w, p.c, 2 * kBlocksOfPasses, false, 1);
  with_kinds(op, dx, dy, taken, [&]<class T, bool whole>() {
    for_each_block(dx.device(), tiles.blocks(),
                   PoolBackward<T, whole, maximum>{tiles, Pool::of(p), dy.as<T>(),
                                                   maximum ? taken.as<std::uint8_t>() : nullptr,
                                                   dx.as<T>(), factor_of(p)});
  });
}

}  // namespace

void max_pool(const PoolGeometry& p, const Tensor& x, Tensor& y, const Tensor& taken) {
  forward<true>("max_pool", p, x, y, taken);
}
void max_pool_back(const PoolGeometry& p, const Tensor& dy, const Tensor& taken, Tensor& dx) {
  backward<true>("max_pool_back", p, dy, taken, dx);
}
void avg_pool(const PoolGeometry& p, const Tensor& x, Tensor& y) {
  forward<false>("avg_pool", p, x, y, {});
}
void avg_pool_back(const PoolGeometry& p, const Tensor& dy, Tensor& dx) {
  backward<false>("avg_pool_back", p, dy, {}, dx);
}

}  // namespace gossamer::fused
