// See layer_norm.h. Gradients of scale and shift are summed by pieces of rows, whose number follows
// from the shape alone, then over the pieces: a result does not depend on the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gossamer/core/cpu/layer_norm.cpp"
// This file is compiled once for each kind of CPU.
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <cmath>
#include <vector>

#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/layer_norm.h"
#include "gossamer/core/cpu/rows_inl.h"
#include "gossamer/core/ops/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {
namespace {

i64 rows_of(const RowNorm& n) { return n.x.shape(-1) == 0 ? 0 : n.count(); }

// centred: the mean is subtracted.
template <class T, bool adds, bool centred>
void norm_rows(const RowNorm& n, const T* add, T* sum, T* y) {
  const i64 cols = n.x.shape(-1);
  const float share = 1 / static_cast<float>(cols), *scale = n.scale.as<float>(),
              *shift = n.shift.defined() ? n.shift.as<float>() : nullptr;
  float *means = centred ? n.mean.as<float>() : nullptr, *inverses = n.inv_std.as<float>();
  const T* x = n.x.as<T>();
  const auto some = [=, eps = n.eps, rows = n.rows](i64 begin, i64 end) HWY_ATTR {
    for (i64 r = begin; r < end; ++r) {
      const i64 at = rows.at(r) * cols;
      const T* in = (adds ? sum : x) + at;
      RunningSum total(0), squares(0);
      for_columns(cols, [&](auto d, i64 c) HWY_ATTR {
        auto v = load(d, x + at + c);
        if constexpr (adds) {
          store(d, hn::Add(v, load(d, add + at + c)), sum + at + c);
          v = load(d, in + c);  // rounded, as backward will see it
        }
        if constexpr (centred)
          total(d, v);
        else
          squares(d, hn::Mul(v, v));
      });
      const float mean = total.value() * share;
      if constexpr (centred)
        for_columns(cols, [&](auto d, i64 c) HWY_ATTR {
          const auto away = hn::Sub(load(d, in + c), hn::Set(d, mean));
          squares(d, hn::Mul(away, away));
        });
      const float inv = 1 / std::sqrt(squares.value() * share + eps);
      for_columns(cols, [&](auto d, i64 c) HWY_ATTR {
        const auto xhat = hn::Mul(hn::Sub(load(d, in + c), hn::Set(d, mean)), hn::Set(d, inv));
        const auto base = shift ? load(d, shift + c) : hn::Zero(d);
        store(d, hn::MulAdd(xhat, load(d, scale + c), base), y + at + c);
      });
      if constexpr (centred) means[r] = mean;
      inverses[r] = inv;
    }
  };
  parallel_for(rows_of(n), (1 << 14) / cols + 1, some);
}

template <class T, bool accumulate, bool centred>
void back_rows(const RowNorm& n, const T* dy, T* dx, float* d_scale, float* d_shift) {
  const i64 cols = n.x.shape(-1), rows = rows_of(n);
  const i64 pieces = std::clamp<i64>(rows / 32, 1, 64);
  const float share = 1 / static_cast<float>(cols), *scale = n.scale.as<float>(),
              *means = centred ? n.mean.as<float>() : nullptr, *inverses = n.inv_std.as<float>();
  const T* x = n.x.as<T>();
  std::vector<float> sums(static_cast<std::size_t>(2 * pieces * cols));
  parallel_for(
      pieces, (1 << 14) / (rows / pieces * cols + 1) + 1, [&](i64 begin, i64 end) HWY_ATTR {
        for (i64 p = begin; p < end; ++p) {
          float *scales = sums.data() + 2 * p * cols, *shifts = scales + cols;
          for (i64 r = rows * p / pieces; r < rows * (p + 1) / pieces; ++r) {
            const i64 at = n.rows.at(r) * cols;
            const T *in = x + at, *up = dy + at;
            T* const to = dx + at;
            const float mean = centred ? means[r] : 0.0f, inv = inverses[r];
            RunningSum sum(0), along(0);
            for_columns(cols, [&](auto d, i64 c) HWY_ATTR {
              const auto g = load(d, up + c);
              const auto xhat =
                  hn::Mul(hn::Sub(load(d, in + c), hn::Set(d, mean)), hn::Set(d, inv));
              store(d, hn::MulAdd(g, xhat, load(d, scales + c)), scales + c);
              const auto scaled = hn::Mul(g, load(d, scale + c));
              if constexpr (centred) {
                store(d, hn::Add(g, load(d, shifts + c)), shifts + c);
                sum(d, scaled);
              }
              along(d, hn::Mul(scaled, xhat));
            });
            const float offset = sum.value() * share, slope = along.value() * share;
            for_columns(cols, [&](auto d, i64 c) HWY_ATTR {
              const auto xhat =
                  hn::Mul(hn::Sub(load(d, in + c), hn::Set(d, mean)), hn::Set(d, inv));
              const auto g = hn::Mul(load(d, up + c), load(d, scale + c));
              auto out = hn::Mul(hn::Set(d, inv), hn::NegMulAdd(xhat, hn::Set(d, slope),
                                                                hn::Sub(g, hn::Set(d, offset))));
              if constexpr (accumulate) out = hn::Add(out, load(d, to + c));
              store(d, out, to + c);
            });
          }
        }
      });
  const auto join = [&](i64 c) {
    double sum = 0;
    for (i64 p = 0; p < pieces; ++p)
      sum += static_cast<double>(sums[static_cast<std::size_t>(2 * p * cols + c)]);
    return static_cast<float>(sum);
  };
  for (i64 c = 0; c < cols; ++c) {
    if (d_scale) d_scale[c] = join(c);
    if (d_shift) d_shift[c] = join(cols + c);
  }
}

void forward(const RowNorm& n, const Tensor* add, Tensor* sum, Tensor& y) {
  note_run(Kernel::layer_norm, HWY_TARGET);
  const bool centred = n.mean.defined();
  with_floating(n.x.dtype(), "layer_norm", [&]<class T>() HWY_ATTR {
    if (add) {
      const auto run = centred ? norm_rows<T, true, true> : norm_rows<T, true, false>;
      run(n, add->as<T>(), sum->as<T>(), y.as<T>());
    } else {
      const auto run = centred ? norm_rows<T, false, true> : norm_rows<T, false, false>;
      run(n, nullptr, nullptr, y.as<T>());
    }
  });
}

void backward(const RowNorm& n, const Tensor& dy, bool accumulate, Tensor& dx,
              const Tensor& d_scale, const Tensor& d_shift) {
  note_run(Kernel::layer_norm, HWY_TARGET);
  const auto floats = [](const Tensor& t) { return t.defined() ? t.as<float>() : nullptr; };
  with_floating(n.x.dtype(), "layer_norm", [&]<class T>() HWY_ATTR {
    const auto run = n.mean.defined()
                         ? (accumulate ? back_rows<T, true, true> : back_rows<T, false, true>)
                         : (accumulate ? back_rows<T, true, false> : back_rows<T, false, false>);
    run(n, dy.as<T>(), dx.as<T>(), floats(d_scale), floats(d_shift));
  });
}

}  // namespace
}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::cpu {

HWY_EXPORT(forward);
void layer_norm(const RowNorm& n, const Tensor* add, Tensor* sum, Tensor& y) {
  HWY_DYNAMIC_DISPATCH(forward)(n, add, sum, y);
}

HWY_EXPORT(backward);
void layer_norm_back(const RowNorm& n, const Tensor& dy, bool accumulate, Tensor& dx,
                     const Tensor& d_scale, const Tensor& d_shift) {
  HWY_DYNAMIC_DISPATCH(backward)(n, dy, accumulate, dx, d_scale, d_shift);
}

}  // namespace gossamer::cpu
#endif
