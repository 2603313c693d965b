// The stem of fused.h: checks and launches of stem_kernels.h.
#include <cmath>

#include "gossamer/core/ops/fused_checks.h"
#include "gossamer/core/ops/stem_kernels.h"

namespace gossamer::fused {

using namespace kernels;

void stem_pool(const Tensor& x, const NormFactors& f, Tensor& y, Tensor& taken) {
  const char* op = "stem_pool";
  matrix_of(op, x);
  check<ShapeError>(x.rank() == 4, op, ": input is ", x.shape(), "; wanted [N, H, W, C]");
  const Shape pooled{x.shape(0), (x.shape(1) - 1) / 2 + 1, (x.shape(2) - 1) / 2 + 1, x.shape(3)};
  check_type(op, "y", y, pooled, x.dtype(), x.device());
  check_type(op, "taken", taken, pooled, DType::u8, x.device());
  check_vectors(op, x, {&f.scale, &f.shift});
  const i64 pixels = pooled.numel() / pooled[-1];
  check<ShapeError>(pixels < (i64{1} << 32), op, ": ", pixels,
                    " output pixels; wanted less than 2^32, so use a smaller batch");
  const Tiles tiles = Tiles::over(pixels, x.shape(3), 2 * kBlocksOfPasses, false, 1);
  const auto extent = [](const Tensor& t, int d) { return static_cast<unsigned>(t.shape(d)); };
  const bool whole = fits_vectors(x.shape(3), {&x, &y, &taken, &f.scale, &f.shift});
  with_floating(x.dtype(), op, [&]<class T>() {
    const auto go = [&]<bool w>() {
      for_each_block(x.device(), tiles.blocks(),
                     NormPool<T, w>{tiles, x.as<T>(), f.scale.as<float>(), f.shift.as<float>(),
                                    y.as<T>(), taken.as<std::uint8_t>(), extent(x, 1), extent(x, 2),
                                    extent(y, 1), extent(y, 2)});
    };
    if (whole)
      go.template operator()<true>();
    else
      go.template operator()<false>();
  });
}

void stem_input(const Tensor& images, Tensor& pairs) {
  const char* op = "stem_input";
  matrix_of(op, images);
  check<ShapeError>(images.rank() == 4 && images.shape(3) == 3 && images.shape(1) % 2 == 0 &&
                        images.shape(2) % 2 == 0,
                    op, ": images are ", images.shape(), "; wanted [N, H, W, 3] with H and W even");
  check_type(op, "pairs", pairs,
             {images.shape(0), images.shape(1) / 2, images.shape(2) / 2, kStemChannels},
             images.dtype(), images.device());
  check<ShapeError>(aligned16(pairs.data()), op, ": pairs must start on 16 bytes");
  with_floating(images.dtype(), op, [&]<class T>() {
    for_each(images.device(), pairs.numel() / 8,
             StemInput<T>{images.as<T>(), pairs.as<T>(), pairs.shape(2)}, 1 << 12);
  });
}

void stem_weight(const Tensor& w, Tensor& pairs) {
  const char* op = "stem_weight";
  check<ShapeError>(w.defined() && w.rank() == 4, op, ": filters are ",
                    w.defined() ? w.shape().str() : "undefined", "; wanted [K, 7, 7, 3]");
  check_type(op, "pairs", pairs, {w.shape(0), 4, 4, kStemChannels},
             pairs.defined() ? pairs.dtype() : DType::f32, w.device());
  const bool alike = w.dtype() == pairs.dtype();
  check_type(op, "filters", w, {w.shape(0), 7, 7, 3}, alike ? pairs.dtype() : DType::f32,
             w.device());
  with_floating(pairs.dtype(), op, [&]<class T>() {
    if (alike)
      for_each(w.device(), pairs.numel(), StemWeight<T, T>{w.as<T>(), pairs.as<T>()});
    else
      for_each(w.device(), pairs.numel(), StemWeight<float, T>{w.as<float>(), pairs.as<T>()});
  });
}

void stem_weight_grad(const Tensor& d_pairs, Tensor& dw) {
  const char* op = "stem_weight_grad";
  check<ShapeError>(dw.defined() && dw.rank() == 4, op, ": dw is ",
                    dw.defined() ? dw.shape().str() : "undefined", "; wanted [K, 7, 7, 3]");
  check_type(op, "dw", dw, {dw.shape(0), 7, 7, 3}, DType::f32, dw.device());
  check_type(op, "d_pairs", d_pairs, {dw.shape(0), 4, 4, kStemChannels},
             d_pairs.defined() ? d_pairs.dtype() : DType::f32, dw.device());
  with_floating(d_pairs.dtype(), op, [&]<class T>() {
    for_each(dw.device(), dw.numel(), StemWeightGrad<T>{d_pairs.as<T>(), dw.as<float>()});
  });
}

}  // namespace gossamer::fused
