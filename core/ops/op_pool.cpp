// Pooling over windows of [N, H, W, C], global average, and the parameter-free ResNet shortcut. All
// rows of channels. A GPU has passes of its own for pooling (fused.h, by_passes): there a thread
// has eight channels, not one, and divides in 32 bits.
#include "gossamer/core/backend.h"
#include "gossamer/core/fused.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

PoolGeometry geometry_of(const char* op, const Tensor& x, const PoolOptions& o) {
  detail::check_floating(op, "input", x);
  check<ShapeError>(x.rank() == 4, op, ": input is ", x.shape(), "; wanted [N, H, W, C]");
  check<ShapeError>(o.kernel >= 1 && o.kernel <= 15 && o.stride >= 1 && o.padding >= 0 &&
                        2 * o.padding <= o.kernel,
                    op, ": kernel ", o.kernel, ", stride ", o.stride, ", padding ", o.padding,
                    "; wanted kernel in [1, 15], stride >= 1, padding in [0, kernel/2]");
  check<ShapeError>(
      x.shape(1) + 2 * o.padding >= o.kernel && x.shape(2) + 2 * o.padding >= o.kernel, op,
      ": input ", x.shape(), " with padding ", o.padding, " is smaller than the window [", o.kernel,
      ", ", o.kernel, "]");
  return {x.shape(0),
          x.shape(1),
          x.shape(2),
          x.shape(3),
          (x.shape(1) + 2 * o.padding - o.kernel) / o.stride + 1,
          (x.shape(2) + 2 * o.padding - o.kernel) / o.stride + 1,
          o.kernel,
          o.stride,
          o.padding};
}

struct Range {
  i64 begin, end;
};
// Taps of output o that lie inside [0, extent).
GOSSAMER_HD inline Range taps_of(i64 o, i64 extent, const PoolGeometry& p) {
  const i64 first = o * p.stride - p.padding;
  return {first < 0 ? -first : 0, first + p.kernel > extent ? extent - first : p.kernel};
}
// Outputs whose window covers input i.
GOSSAMER_HD inline Range windows_of(i64 i, i64 outputs, const PoolGeometry& p) {
  // o * stride > reach
  const i64 last = (i + p.padding) / p.stride, reach = i + p.padding - p.kernel;
  return {reach < 0 ? 0 : reach / p.stride + 1, last < outputs ? last + 1 : outputs};
}

constexpr i64 kBlock = 64;  // channels whose running results stay in registers or L1

template <class T>
struct MaxForward {  // row: an output pixel
  const T* x;
  T* y;
  // tap of the first maximum, for backward; may be null
  std::uint8_t* taken;
  PoolGeometry p;
  GOSSAMER_HD void operator()(i64 row, i64 begin, i64 end) const {
    const i64 n = row / (p.ho * p.wo), o = row / p.wo % p.ho, q = row % p.wo;
    const Range rows = taps_of(o, p.h, p), cols = taps_of(q, p.w, p);
    for (i64 at = begin; at < end; at += kBlock) {
      const i64 width = end - at < kBlock ? end - at : kBlock;
      float best[kBlock];
      int tap[kBlock];
      for (i64 c = 0; c < width; ++c) {
        best[c] = -__builtin_huge_valf();
        tap[c] = static_cast<int>(rows.begin * p.kernel + cols.begin);
      }
      for (i64 r = rows.begin; r < rows.end; ++r)
        for (i64 s = cols.begin; s < cols.end; ++s) {
          const T* from =
              x +
              ((n * p.h + o * p.stride - p.padding + r) * p.w + q * p.stride - p.padding + s) *
                  p.c +
              at;
          const int here = static_cast<int>(r * p.kernel + s);
          for (i64 c = 0; c < width; ++c) {
            const float v = load(from, c);
            const bool better = v > best[c] || v != v;  // a NaN wins and stays
            best[c] = better ? v : best[c];
            tap[c] = better ? here : tap[c];
          }
        }
      for (i64 c = 0; c < width; ++c) store(y, row * p.c + at + c, best[c]);
      if (taken)
        for (i64 c = 0; c < width; ++c)
          taken[row * p.c + at + c] = static_cast<std::uint8_t>(tap[c]);
    }
  }
};

// Backward of both poolings gathers: each input pixel asks the windows that cover it, so no two
// threads write one element.
template <class T, bool maximum>
struct PoolBack {  // row: an input pixel
  const T* g;
  const std::uint8_t* taken;
  T* dx;
  PoolGeometry p;
  float factor;
  GOSSAMER_HD void operator()(i64 row, i64 begin, i64 end) const {
    const i64 n = row / (p.h * p.w), h = row / p.w % p.h, w = row % p.w;
    const Range rows = windows_of(h, p.ho, p), cols = windows_of(w, p.wo, p);
    for (i64 at = begin; at < end; at += kBlock) {
      const i64 width = end - at < kBlock ? end - at : kBlock;
      float sum[kBlock];
      for (i64 c = 0; c < width; ++c) sum[c] = 0;
      for (i64 o = rows.begin; o < rows.end; ++o)
        for (i64 q = cols.begin; q < cols.end; ++q) {
          const i64 from = ((n * p.ho + o) * p.wo + q) * p.c + at;
          const int tap = static_cast<int>((h + p.padding - o * p.stride) * p.kernel + w +
                                           p.padding - q * p.stride);
          for (i64 c = 0; c < width; ++c) {
            const float up = load(g, from + c);
            if constexpr (maximum)
              sum[c] += taken[from + c] == tap ? up : 0.0f;
            else
              sum[c] += up;
          }
        }
      for (i64 c = 0; c < width; ++c) store(dx, row * p.c + at + c, factor * sum[c]);
    }
  }
};

template <class T>
struct AverageForward {  // row: an output pixel
  const T* x;
  T* y;
  PoolGeometry p;
  float factor;
  GOSSAMER_HD void operator()(i64 row, i64 begin, i64 end) const {
    const i64 n = row / (p.ho * p.wo), o = row / p.wo % p.ho, q = row % p.wo;
    const Range rows = taps_of(o, p.h, p), cols = taps_of(q, p.w, p);
    for (i64 at = begin; at < end; at += kBlock) {
      const i64 width = end - at < kBlock ? end - at : kBlock;
      float sum[kBlock];
      for (i64 c = 0; c < width; ++c) sum[c] = 0;
      for (i64 r = rows.begin; r < rows.end; ++r)
        for (i64 s = cols.begin; s < cols.end; ++s) {
          const T* from =
              x +
              ((n * p.h + o * p.stride - p.padding + r) * p.w + q * p.stride - p.padding + s) *
                  p.c +
              at;
          for (i64 c = 0; c < width; ++c) sum[c] += load(from, c);
        }
      for (i64 c = 0; c < width; ++c) store(y, row * p.c + at + c, factor * sum[c]);
    }
  }
};

template <class T>
struct GlobalForward {  // row: an image
  const T* x;
  T* y;
  i64 pixels, cols;
  GOSSAMER_HD void operator()(i64 n, i64 begin, i64 end) const {
    const float factor = 1.0f / static_cast<float>(pixels);
    for (i64 at = begin; at < end; at += kBlock) {
      const i64 width = end - at < kBlock ? end - at : kBlock;
      float sum[kBlock];
      for (i64 c = 0; c < width; ++c) sum[c] = 0;
      for (i64 i = 0; i < pixels; ++i)
        for (i64 c = 0; c < width; ++c) sum[c] += load(x, (n * pixels + i) * cols + at + c);
      for (i64 c = 0; c < width; ++c) store(y, n * cols + at + c, factor * sum[c]);
    }
  }
};
template <class T>
struct GlobalBack {  // row: an input pixel
  const T* g;
  T* dx;
  i64 pixels, cols;
  GOSSAMER_HD void operator()(i64 row, i64 begin, i64 end) const {
    const float factor = 1.0f / static_cast<float>(pixels);
    const i64 n = row / pixels;
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) store(dx, row * cols + c, factor * load(g, n * cols + c));
  }
};

// x [n, h, w, c] and y [n, ho, wo, k]: y[.., i, j, before + c] = x[.., i stride, j stride, c].
struct Shortcut {
  i64 h, w, c, ho, wo, k, before;
  int stride;
};
template <class T>
struct ShortcutForward {  // row: an output pixel
  const T* x;
  T* y;
  Shortcut g;
  GOSSAMER_HD void operator()(i64 row, i64 begin, i64 end) const {
    const i64 n = row / (g.ho * g.wo), i = row / g.wo % g.ho, j = row % g.wo;
    const i64 from = ((n * g.h + i * g.stride) * g.w + j * g.stride) * g.c - g.before;
    for (i64 c = begin; c < end; ++c)
      y[row * g.k + c] = c >= g.before && c < g.before + g.c ? x[from + c] : T(0.0f);
  }
};
template <class T>
struct ShortcutBack {  // row: an input pixel
  const T* dy;
  T* dx;
  Shortcut g;
  GOSSAMER_HD void operator()(i64 row, i64 begin, i64 end) const {
    const i64 n = row / (g.h * g.w), h = row / g.w % g.h, w = row % g.w;
    const bool used = h % g.stride == 0 && w % g.stride == 0;
    const i64 from = ((n * g.ho + h / g.stride) * g.wo + w / g.stride) * g.k + g.before;
    for (i64 c = begin; c < end; ++c) dx[row * g.c + c] = used ? dy[from + c] : T(0.0f);
  }
};

}  // namespace

Tensor max_pool2d(const Tensor& x, PoolOptions options) {
  const PoolGeometry p = geometry_of("max_pool2d", x, options);
  const Device device = x.device();
  Tensor y = Tensor::empty({p.n, p.ho, p.wo, p.c}, x.dtype(), device);
  const Tensor taken = wants_grad({x}) ? Tensor::empty(y.shape(), DType::u8, device) : Tensor();
  if (by_passes(device))
    fused::max_pool(p, x, y, taken);
  else
    with_floating(x.dtype(), "max_pool2d", [&]<class T>() {
      for_each_row(device, p.n * p.ho * p.wo, p.c,
                   MaxForward<T>{x.as<T>(), y.as<T>(),
                                 taken.defined() ? taken.as<std::uint8_t>() : nullptr, p},
                   1 << 12);
    });
  record("max_pool2d", y, {x}, {taken}, [=](const Tensor& g, const std::vector<Tensor>& saved) {
    Tensor dx = Tensor::empty({p.n, p.h, p.w, p.c}, g.dtype(), device);
    if (by_passes(device))
      fused::max_pool_back(p, g, saved[0], dx);
    else
      with_floating(g.dtype(), "max_pool2d", [&]<class T>() {
        for_each_row(device, p.n * p.h * p.w, p.c,
                     PoolBack<T, true>{g.as<T>(), saved[0].as<std::uint8_t>(), dx.as<T>(), p, 1},
                     1 << 12);
      });
    return Grads{dx};
  });
  return y;
}

Tensor avg_pool2d(const Tensor& x, PoolOptions options) {
  const PoolGeometry p = geometry_of("avg_pool2d", x, options);
  const Device device = x.device();
  const float factor = 1.0f / static_cast<float>(p.kernel * p.kernel);
  Tensor y = Tensor::empty({p.n, p.ho, p.wo, p.c}, x.dtype(), device);
  if (by_passes(device))
    fused::avg_pool(p, x, y);
  else
    with_floating(x.dtype(), "avg_pool2d", [&]<class T>() {
      for_each_row(device, p.n * p.ho * p.wo, p.c,
                   AverageForward<T>{x.as<T>(), y.as<T>(), p, factor}, 1 << 12);
    });
  record("avg_pool2d", y, {x}, {}, [=](const Tensor& g, const std::vector<Tensor>&) {
    Tensor dx = Tensor::empty({p.n, p.h, p.w, p.c}, g.dtype(), device);
    if (by_passes(device))
      fused::avg_pool_back(p, g, dx);
    else
      with_floating(g.dtype(), "avg_pool2d", [&]<class T>() {
        for_each_row(device, p.n * p.h * p.w, p.c,
                     PoolBack<T, false>{g.as<T>(), nullptr, dx.as<T>(), p, factor}, 1 << 12);
      });
    return Grads{dx};
  });
  return y;
}

Tensor global_avg_pool(const Tensor& x) {
  detail::check_floating("global_avg_pool", "input", x);
  check<ShapeError>(x.rank() == 4 && x.shape(1) > 0 && x.shape(2) > 0, "global_avg_pool: input is ",
                    x.shape(), "; wanted [N, H, W, C]");
  const i64 n = x.shape(0), pixels = x.shape(1) * x.shape(2), cols = x.shape(3);
  Tensor y = Tensor::empty({n, cols}, x.dtype(), x.device());
  if (by_passes(x.device()))
    fused::global_average(x, y);
  else
    with_floating(x.dtype(), "global_avg_pool", [&]<class T>() {
      for_each_row(x.device(), n, cols, GlobalForward<T>{x.as<T>(), y.as<T>(), pixels, cols},
                   (1 << 14) / pixels + 1);
    });
  const Shape shape = x.shape();
  record("global_avg_pool", y, {x}, {}, [=](const Tensor& g, const std::vector<Tensor>&) {
    Tensor dx = Tensor::empty(shape, g.dtype(), g.device());
    if (by_passes(g.device())) {
      fused::global_average_back(g, dx);
      return Grads{dx};
    }
    with_floating(g.dtype(), "global_avg_pool", [&]<class T>() {
      for_each_row(g.device(), n * pixels, cols,
                   GlobalBack<T>{g.as<T>(), dx.as<T>(), pixels, cols});
    });
    return Grads{dx};
  });
  return y;
}

Tensor subsample_pad(const Tensor& x, int stride, i64 channels) {
  detail::check_floating("subsample_pad", "input", x);
  check<ShapeError>(x.rank() == 4 && stride >= 1 && channels >= x.shape(3), "subsample_pad: input ",
                    x.shape(), " with stride ", stride, " to ", channels,
                    " channels; wanted [N, H, W, C], stride >= 1 and at least C channels");
  const i64 n = x.shape(0);
  const Shortcut s{x.shape(1),
                   x.shape(2),
                   x.shape(3),
                   (x.shape(1) + stride - 1) / stride,
                   (x.shape(2) + stride - 1) / stride,
                   channels,
                   (channels - x.shape(3)) / 2,
                   stride};
  Tensor y = Tensor::empty({n, s.ho, s.wo, s.k}, x.dtype(), x.device());
  with_floating(x.dtype(), "subsample_pad", [&]<class T>() {
    for_each_row(x.device(), n * s.ho * s.wo, s.k, ShortcutForward<T>{x.as<T>(), y.as<T>(), s});
  });
  record("subsample_pad", y, {x}, {}, [=](const Tensor& g, const std::vector<Tensor>&) {
    Tensor dx = Tensor::empty({n, s.h, s.w, s.c}, g.dtype(), g.device());
    with_floating(g.dtype(), "subsample_pad", [&]<class T>() {
      for_each_row(g.device(), n * s.h * s.w, s.c, ShortcutBack<T>{g.as<T>(), dx.as<T>(), s});
    });
    return Grads{dx};
  });
  return y;
}

}  // namespace gossamer
