// Pooling over windows of [N, H, W, C], global average, and the parameter-free ResNet shortcut:
// checks and the tape; of the shortcut also the formula. The others are the backend's.
#include "gossamer/core/backend.h"
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
  Tensor y = Tensor::empty({p.n, p.ho, p.wo, p.c}, x.dtype(), x.device());
  const Tensor taken = wants_grad({x}) ? Tensor::empty(y.shape(), DType::u8, x.device()) : Tensor();
  backend(x.device()).max_pool(p, x, y, taken);
  record("max_pool2d", y, {x}, {taken}, [p](const Tensor& g, const std::vector<Tensor>& saved) {
    Tensor dx = Tensor::empty({p.n, p.h, p.w, p.c}, g.dtype(), g.device());
    backend(g.device()).max_pool_back(p, g, saved[0], dx);
    return Grads{dx};
  });
  return y;
}

Tensor avg_pool2d(const Tensor& x, PoolOptions options) {
  const PoolGeometry p = geometry_of("avg_pool2d", x, options);
  Tensor y = Tensor::empty({p.n, p.ho, p.wo, p.c}, x.dtype(), x.device());
  backend(x.device()).avg_pool(p, x, y);
  record("avg_pool2d", y, {x}, {}, [p](const Tensor& g, const std::vector<Tensor>&) {
    Tensor dx = Tensor::empty({p.n, p.h, p.w, p.c}, g.dtype(), g.device());
    backend(g.device()).avg_pool_back(p, g, dx);
    return Grads{dx};
  });
  return y;
}

Tensor global_avg_pool(const Tensor& x) {
  detail::check_floating("global_avg_pool", "input", x);
  check<ShapeError>(x.rank() == 4 && x.shape(1) > 0 && x.shape(2) > 0, "global_avg_pool: input is ",
                    x.shape(), "; wanted [N, H, W, C]");
  Tensor y = Tensor::empty({x.shape(0), x.shape(3)}, x.dtype(), x.device());
  backend(x.device()).global_average(x, y);
  record("global_avg_pool", y, {x}, {},
         [shape = x.shape()](const Tensor& g, const std::vector<Tensor>&) {
           Tensor dx = Tensor::empty(shape, g.dtype(), g.device());
           backend(g.device()).global_average_back(g, dx);
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
