// See pointwise_conv.h.
#include "gossamer/core/cpu/pointwise_conv.h"

#include <algorithm>
#include <cstring>

#include "gossamer/core/cpu/products.h"
#include "gossamer/core/parallel.h"

namespace gossamer::cpu {
namespace {

// Images [n, h, w, c] or weights [k, 1, 1, c] as a matrix of c columns, in the same memory.
Tensor rows_of(const Tensor& t) { return t.reshape({t.numel() / t.shape(3), t.shape(3)}); }

StridedRows strided_rows(const ConvGeometry& g) { return {g.h, g.w, g.stride, g.ho, g.wo}; }

// For each row of an image that the stride does not skip: calls each(the row's first pixel, where
// it lies in `pixels` [n ho wo, c], bytes of a pixel, the output row).
template <class Each>
void for_image_rows(const ConvGeometry& g, const Tensor& image, const Tensor& pixels, Each&& each) {
  const i64 size = g.c * static_cast<i64>(size_of(image.dtype()));
  auto* const all = static_cast<std::byte*>(image.data());
  auto* const some = static_cast<std::byte*>(pixels.data());
  parallel_for(g.n * g.ho, 1 + 4096 / (g.wo * size), [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row)
      each(all + (row / g.ho * g.h + row % g.ho * g.stride) * g.w * size, some + row * g.wo * size,
           static_cast<std::size_t>(size), row % g.ho);
  });
}

// The pixels of x that the stride does not skip, [n ho wo, c].
Tensor gather_pixels(const ConvGeometry& g, const Tensor& x) {
  Tensor pixels = Tensor::empty({g.n * g.ho * g.wo, g.c}, x.dtype());
  for_image_rows(g, x, pixels, [&g](std::byte* in, std::byte* out, std::size_t size, i64) {
    const std::size_t step = static_cast<std::size_t>(g.stride) * size;
    for (i64 i = 0; i < g.wo; ++i, in += step, out += size) std::memcpy(out, in, size);
  });
  return pixels;
}

// The inverse: writes these pixels to their places in the image.
void scatter_pixels(const ConvGeometry& g, const Tensor& pixels, const Tensor& image) {
  for_image_rows(g, image, pixels,
                 [&g](std::byte* to, const std::byte* from, std::size_t size, i64) {
                   const std::size_t step = static_cast<std::size_t>(g.stride) * size;
                   for (i64 i = 0; i < g.wo; ++i, to += step, from += size)
                     std::memcpy(to, from, size);
                 });
}

// The same, with zeros in the pixels that the stride skips. Each pixel is written once.
void scatter_with_zeros(const ConvGeometry& g, const Tensor& pixels, const Tensor& image) {
  for_image_rows(
      g, image, pixels, [&g](std::byte* to, const std::byte* from, std::size_t size, i64 row) {
        for (i64 i = 0; i < g.w; ++i, to += size) {
          if (i % g.stride != 0) {
            std::memset(to, 0, size);
          } else {
            std::memcpy(to, from, size);
            from += size;
          }
        }
        const i64 next = std::min(g.h, (row + 1) * g.stride);
        std::memset(to, 0, static_cast<std::size_t>((next - row * g.stride - 1) * g.w) * size);
      });
}

}  // namespace

bool is_pointwise(const ConvGeometry& g) {
  return g.r == 1 && g.s == 1 && g.padding == 0 && g.groups == 1;
}

void pointwise_conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) {
  Tensor out = rows_of(y);
  const StridedRows places = strided_rows(g);
  product(false, true, rows_of(x), rows_of(w), out, {}, g.stride > 1 ? &places : nullptr);
}

void pointwise_conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) {
  Tensor out = g.stride == 1 ? rows_of(dx) : Tensor::empty({g.n * g.ho * g.wo, g.c}, dx.dtype());
  product(false, false, rows_of(dy), rows_of(w), out, {});
  if (g.stride > 1) scatter_with_zeros(g, out, dx);
}

void pointwise_conv_dx_add(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) {
  Tensor out = g.stride == 1 ? rows_of(dx) : gather_pixels(g, dx);
  product(false, false, rows_of(dy), rows_of(w), out, {.add = true});
  if (g.stride > 1) scatter_pixels(g, out, dx);
}

void pointwise_conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) {
  Tensor out = rows_of(dw);
  const StridedRows places = strided_rows(g);
  const bool in_place = g.stride > 1 && x.dtype() == DType::f32, copy = g.stride > 1 && !in_place;
  product(true, false, rows_of(dy), copy ? gather_pixels(g, x) : rows_of(x), out, {},
          in_place ? &places : nullptr);
}

}  // namespace gossamer::cpu
