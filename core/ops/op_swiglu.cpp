// swiglu: the gated activation of LLaMA's kind of model.
#include <algorithm>
#include <array>

#include "gossamer/core/ops/exponential.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

constexpr const char* kOp = "swiglu";

// Row r of x is a and u side by side, `width` numbers each.
template <class T>
struct Swiglu {
  const T* x;
  T* y;
  i64 width;
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    const T *a = x + 2 * r * width, *u = a + width;
    T* to = y + r * width;
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) {
      const float v = load(a, c);
      store(to, c, v * sigmoid_of(v) * load(u, c));
    }
  }
  GOSSAMER_HD void eight(i64 r, i64 c) const {
    const T* const from = x + 2 * r * width + c;
    const Eight a = load_eight<true>(from, 8), u = load_eight<true>(from + width, 8);
    Eight out;
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) out.v[j] = a.v[j] * sigmoid_of(a.v[j]) * u.v[j];
    store_eight<true>(y + r * width + c, 8, out);
  }
};

// With s = sigmoid(a): da = dy u s (1 + a (1 - s)), du = dy a s.
template <class T>
struct SwigluBack {
  const T *x, *dy;
  T* dx;
  i64 width;
  GOSSAMER_HD static float slope(float a, float s) { return s * (1.0f + a * (1.0f - s)); }
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    const T *a = x + 2 * r * width, *u = a + width, *g = dy + r * width;
    T *da = dx + 2 * r * width, *du = da + width;
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) {
      const float v = load(a, c), s = sigmoid_of(v), up = load(g, c);
      store(da, c, up * load(u, c) * slope(v, s));
      store(du, c, up * v * s);
    }
  }
  GOSSAMER_HD void eight(i64 r, i64 c) const {
    const i64 at = 2 * r * width + c;
    const Eight a = load_eight<true>(x + at, 8), u = load_eight<true>(x + at + width, 8),
                g = load_eight<true>(dy + r * width + c, 8);
    Eight da, du;
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) {
      const float s = sigmoid_of(a.v[j]);
      da.v[j] = g.v[j] * u.v[j] * slope(a.v[j], s);
      du.v[j] = g.v[j] * a.v[j] * s;
    }
    store_eight<true>(dx + at, 8, da);
    store_eight<true>(dx + at + width, 8, du);
  }
};

template <class Formula>
void run(Device device, i64 rows, const Formula& f, std::initializer_list<const void*> starts) {
  const bool eights =
      !device.is_cpu() && f.width % 8 == 0 && std::ranges::all_of(starts, aligned16);
  for_each_row_in_eights(device, rows, f.width, f, eights);
}

}  // namespace

Tensor swiglu(const Tensor& x) {
  detail::check_floating(kOp, "input", x);
  check<ShapeError>(x.rank() >= 1 && x.shape(-1) > 0 && x.shape(-1) % 2 == 0, kOp, ": input is ",
                    x.shape(), "; wanted [..., 2F]");
  const i64 width = x.shape(-1) / 2, rows = x.numel() / x.shape(-1);
  std::array<i64, Shape::max_rank> extents{};
  *std::copy(x.shape().begin(), x.shape().end() - 1, extents.begin()) = width;
  Tensor y = Tensor::empty(Shape::of(extents.data(), x.rank()), x.dtype(), x.device());
  with_floating(x.dtype(), kOp, [&]<class T>() {
    run(x.device(), rows, Swiglu<T>{x.as<T>(), y.as<T>(), width}, {x.data(), y.data()});
  });
  record(kOp, y, {x}, {x}, [width, rows](const Tensor& g, const std::vector<Tensor>& saved) {
    const Tensor& from = saved[0];
    const Tensor dx = Tensor::empty(from.shape(), from.dtype(), from.device());
    with_floating(from.dtype(), kOp, [&]<class T>() {
      run(from.device(), rows, SwigluBack<T>{from.as<T>(), g.as<T>(), dx.as<T>(), width},
          {from.data(), g.data(), dx.data()});
    });
    return Grads{dx};
  });
  return y;
}

}  // namespace gossamer
