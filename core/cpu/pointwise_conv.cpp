// See pointwise_conv.h.
#include "gossamer/core/cpu/pointwise_conv.h"

#include <cstring>

#include "gossamer/core/cpu/products.h"
#include "gossamer/core/parallel.h"

namespace gossamer::cpu {
namespace {

// Images [n, h, w, c] or weights [k, 1, 1, c] as a matrix of c columns, in the same memory.
Tensor rows_of(const Tensor& t) { return t.reshape({t.numel() / t.shape(3), t.shape(3)}); }

enum class Copy { pick, put };
// Between image, of which a stride skips pixels, and those that it does not skip, [pixels,
// channels].
void copy_pixels(Copy direction, const ConvGeometry& g, const Tensor& image, const Tensor& pixels) {
  const i64 size = g.c * static_cast<i64>(size_of(image.dtype()));
  auto* const all = static_cast<std::byte*>(image.data());
  auto* const some = static_cast<std::byte*>(pixels.data());
  parallel_for(g.n * g.ho, 1 + 4096 / (g.wo * size), [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      std::byte* in = all + (row / g.ho * g.h + row % g.ho * g.stride) * g.w * size;
      std::byte* out = some + row * g.wo * size;
      for (i64 i = 0; i < g.wo; ++i, in += g.stride * size, out += size)
        direction == Copy::pick ? std::memcpy(out, in, static_cast<std::size_t>(size))
                                : std::memcpy(in, out, static_cast<std::size_t>(size));
    }
  });
}

// The pixels of x that have an output, [pixels, channels]: a view or a copy.
Tensor pixels_of(const ConvGeometry& g, const Tensor& x) {
  if (g.stride == 1) return rows_of(x);
  const Tensor pixels = Tensor::empty({g.n * g.ho * g.wo, g.c}, x.dtype());
  copy_pixels(Copy::pick, g, x, pixels);
  return pixels;
}

}  // namespace

bool is_pointwise(const ConvGeometry& g) {
  return g.r == 1 && g.s == 1 && g.padding == 0 && g.groups == 1;
}

void pointwise_conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) {
  Tensor out = rows_of(y);
  product(false, true, pixels_of(g, x), rows_of(w), out, {});
}

void pointwise_conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) {
  Tensor out = rows_of(dx);
  if (g.stride > 1) out = Tensor::empty({g.n * g.ho * g.wo, g.c}, dx.dtype());
  product(false, false, rows_of(dy), rows_of(w), out, {});
  if (g.stride == 1) return;
  dx.zero();
  copy_pixels(Copy::put, g, dx, out);
}

void pointwise_conv_dx_add(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) {
  Tensor out = pixels_of(g, dx);
  product(false, false, rows_of(dy), rows_of(w), out, {.add = true});
  if (g.stride > 1) copy_pixels(Copy::put, g, dx, out);
}

void pointwise_conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) {
  Tensor out = rows_of(dw);
  product(true, false, rows_of(dy), pixels_of(g, x), out, {});
}

}  // namespace gossamer::cpu
