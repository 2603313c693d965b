// The stem on pairs of pixels: images and filters are laid out anew, the convolution is the
// engine's.
#include "gossamer/core/stem_conv.h"

#include "gossamer/core/fused.h"

namespace gossamer {
namespace {

// Padded by 2 before and, as the last output needs it, by 1 behind.
ConvGeometry on_pairs(const ConvGeometry& g) {
  return {g.n, g.h / 2, g.w / 2, fused::kStemChannels, g.k, 4, 4, g.ho, g.wo, 1, 2, 1, 1};
}

Tensor pairs_of(const ConvGeometry& g, const Tensor& images) {
  Tensor pairs =
      Tensor::empty({g.n, g.h / 2, g.w / 2, fused::kStemChannels}, images.dtype(), images.device());
  fused::stem_input(images, pairs);
  return pairs;
}

}  // namespace

bool is_stem(const ConvGeometry& g) {
  return g.r == 7 && g.s == 7 && g.c == 3 && g.stride == 2 && g.padding == 3 && g.dilation == 1 &&
         g.groups == 1 && g.h % 2 == 0 && g.w % 2 == 0 && g.n * g.h * g.w > 0;
}

void stem_conv(Backend& engine, const ConvGeometry& g, const Tensor& x, const Tensor& w,
               Tensor& y) {
  Tensor filters = Tensor::empty({g.k, 4, 4, fused::kStemChannels}, x.dtype(), x.device());
  fused::stem_weight(w, filters);
  engine.conv(on_pairs(g), pairs_of(g, x), filters, y);
}

void stem_conv_dw(Backend& engine, const ConvGeometry& g, const Tensor& x, const Tensor& dy,
                  Tensor& dw) {
  Tensor d_filters = Tensor::empty({g.k, 4, 4, fused::kStemChannels}, DType::f32, x.device());
  engine.conv_dw(on_pairs(g), pairs_of(g, x), dy, d_filters);
  fused::stem_weight_grad(d_filters, dw);
}

}  // namespace gossamer
