// The stem on pairs of pixels: images and filters are laid out anew, the convolution is the
// engine's.
#include "gossamer/core/cuda/kernels/stem.h"

#include "gossamer/core/cuda/stem.h"

namespace gossamer::stem {

using namespace kernels;

void pair_images(const Tensor& images, Tensor& pairs) {
  with_floating(images.dtype(), "stem", [&]<class T>() {
    for_each(images.device(), pairs.numel() / 8,
             StemInput<T>{images.as<T>(), pairs.as<T>(), pairs.shape(2)}, 1 << 12);
  });
}

void pair_filters(const Tensor& w, Tensor& pairs) {
  with_floating(pairs.dtype(), "stem", [&]<class T>() {
    if (w.dtype() == pairs.dtype())
      for_each(w.device(), pairs.numel(), StemWeight<T, T>{w.as<T>(), pairs.as<T>()});
    else
      for_each(w.device(), pairs.numel(), StemWeight<float, T>{w.as<float>(), pairs.as<T>()});
  });
}

void unpair_filters(const Tensor& d_pairs, Tensor& dw) {
  with_floating(d_pairs.dtype(), "stem", [&]<class T>() {
    for_each(dw.device(), dw.numel(), StemWeightGrad<T>{d_pairs.as<T>(), dw.as<float>()});
  });
}

ConvGeometry on_pairs(const ConvGeometry& g) {
  return {g.n, g.h / 2, g.w / 2, kChannels, g.k, 4, 4, g.ho, g.wo, 1, 2, 1, 1};
}

Tensor pairs_of(const Tensor& images) {
  Tensor pairs =
      Tensor::empty({images.shape(0), images.shape(1) / 2, images.shape(2) / 2, kChannels},
                    images.dtype(), images.device());
  pair_images(images, pairs);
  return pairs;
}

Tensor filters_of(const Tensor& w, DType type) {
  Tensor pairs = Tensor::empty({w.shape(0), 4, 4, kChannels}, type, w.device());
  pair_filters(w, pairs);
  return pairs;
}

bool fits(const ConvGeometry& g) {
  return g.r == 7 && g.s == 7 && g.c == 3 && g.stride == 2 && g.padding == 3 && g.dilation == 1 &&
         g.groups == 1 && g.h % 2 == 0 && g.w % 2 == 0 && g.n * g.h * g.w > 0;
}

void conv(Backend& engine, const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) {
  engine.conv(on_pairs(g), pairs_of(x), filters_of(w, x.dtype()), y);
}

void conv_dw(Backend& engine, const ConvGeometry& g, const Tensor& x, const Tensor& dy,
             Tensor& dw) {
  Tensor d_filters = Tensor::empty({g.k, 4, 4, kChannels}, DType::f32, x.device());
  engine.conv_dw(on_pairs(g), pairs_of(x), dy, d_filters);
  unpair_filters(d_filters, dw);
}

}  // namespace gossamer::stem
