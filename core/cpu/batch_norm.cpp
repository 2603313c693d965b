// Batch norm on the CPU: bound by memory, so everything a pass can do is done in that pass, and it
// goes through memory in order, as the CPU expects. What it needs of each channel is in the cache.
//
// Rows of narrow layers (16 channels) would be too short; so `fold` rows of c channels are viewed
// as one row of fold * c columns, and the columns are added up at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gossamer/core/cpu/batch_norm.cpp"
// This file is compiled once for each kind of CPU.
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <cmath>
#include <vector>

#include "gossamer/core/cpu/batch_norm.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/vectors_inl.h"
#include "gossamer/core/ops/kernel.h"
#include "gossamer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {
namespace {

constexpr i64 kColumns = 256;
constexpr i64 kBlock = 128;  // rows summed in f32 before they join the f64 sum

struct View {
  i64 rows, columns, fold;  // `rows` rows of `columns` = fold * c
  i64 c, rest;              // and `rest` < fold rows of c behind them
  View(i64 all_rows, i64 channels) : c(channels) {
    fold = channels < kColumns && kColumns % channels == 0 ? kColumns / channels : 1;
    rows = all_rows / fold;
    columns = channels * fold;
    rest = all_rows - rows * fold;
  }
  std::vector<float> spread(const float* per_channel) const {
    std::vector<float> wide(static_cast<std::size_t>(columns));
    for (i64 i = 0; i < columns; ++i) wide[static_cast<std::size_t>(i)] = per_channel[i % c];
    return wide;
  }
};

// Asks for memory that is written soon and not read before: the CPU guesses reads only.
template <class T>
HWY_INLINE void ask_for(T* p) {
  __builtin_prefetch(p + 512, 1);
}

// Calls body(d, column) for vectors of tag d that cover the columns.
template <class Body>
HWY_INLINE void across(i64 columns, Body&& body) {
  i64 col = 0;
#pragma GCC unroll 4
  for (; col + kLanes <= columns; col += kLanes) body(Floats(), col);
  for (; col < columns; ++col) body(hn::CappedTag<float, 1>(), col);
}

i64 pieces_of(i64 elements) {
  return std::max<i64>(1, std::min<i64>(compute_threads(), elements >> 15));
}

// Runs body(piece, rows, offset of the first element, columns) over all rows of the view, in
// parallel; the few rows that do not fill a folded row come last, on this thread.
template <class Body>
void all_rows(const View& view, i64 pieces, Body&& body) {
  parallel_for(pieces, 1, [&](i64 begin, i64 end) HWY_ATTR {
    for (i64 p = begin; p < end; ++p) {
      const i64 first = view.rows * p / pieces;
      body(p, view.rows * (p + 1) / pieces - first, first * view.columns, view.columns);
    }
  });
  if (view.rest > 0) body(pieces - 1, view.rest, view.rows * view.columns, view.c);
}

// Calls body(d, offset, column) for vectors of tag d that cover all rows, in the order of memory.
template <class Body>
void all_elements(const View& view, i64 pieces, Body&& body) {
  all_rows(view, pieces, [&](i64, i64 rows, i64 at, i64 columns) HWY_ATTR {
    for (i64 r = 0; r < rows; ++r, at += columns)
      across(columns, [&](auto d, i64 col) HWY_ATTR { body(d, at + col, col); });
  });
}

// Two sums per channel of term(offset, column, first, second), in f64 and in an order that depends
// on the thread count only.
template <class Term>
void column_sums(const View& view, i64 pieces, double* first, double* second, Term&& term) {
  const auto width = static_cast<std::size_t>(view.columns);
  std::vector<double> sums(2 * width * static_cast<std::size_t>(pieces), 0.0);
  all_rows(view, pieces, [&](i64 piece, i64 rows, i64 at, i64 columns) HWY_ATTR {
    std::vector<float> block(2 * width);
    float *a = block.data(), *b = a + columns;
    double* out = sums.data() + 2 * width * static_cast<std::size_t>(piece);
    // `count` rows at once, so that the sums are loaded and stored once for them
    const auto add_rows = [&]<int count>() HWY_ATTR {
      across(columns, [&](auto d, i64 col) HWY_ATTR {
        auto sum_a = load(d, a + col), sum_b = load(d, b + col);
#pragma GCC unroll 4
        for (int i = 0; i < count; ++i) term(d, at + i * columns + col, col, sum_a, sum_b);
        store(d, sum_a, a + col);
        store(d, sum_b, b + col);
      });
      at += count * columns;
    };
    for (i64 r = 0; r < rows; r += kBlock) {
      std::ranges::fill(block, 0.0f);
      i64 left = std::min(kBlock, rows - r);
      for (; left >= 4; left -= 4) add_rows.template operator()<4>();
      for (; left > 0; --left) add_rows.template operator()<1>();
      for (i64 i = 0; i < columns; ++i) {
        out[i] += static_cast<double>(a[i]);
        out[i + view.columns] += static_cast<double>(b[i]);
      }
    }
  });
  for (i64 i = 0; i < view.c; ++i) {
    first[i] = second[i] = 0;
    for (i64 p = 0; p < pieces; ++p) {
      for (i64 f = 0; f < view.fold; ++f) {
        const double* in = sums.data() + 2 * p * view.columns + f * view.c + i;
        first[i] += in[0];
        second[i] += in[view.columns];
      }
    }
  }
}

// y = relu?(a x + b + add?)
template <class T, bool has_add, bool with_relu>
void affine(const View& view, i64 pieces, const T* x, const T* add, const float* a, const float* b,
            T* y) {
  all_elements(view, pieces, [=](auto d, i64 at, i64 col) HWY_ATTR {
    auto out = hn::MulAdd(load(d, x + at), load(d, a + col), load(d, b + col));
    if constexpr (has_add) out = hn::Add(out, load(d, add + at));
    if constexpr (with_relu) out = relu(d, out);
    ask_for(y + at);
    store(d, out, y + at);
  });
}

template <class T>
void statistics(const View& view, i64 pieces, const T* x, double rows, float eps, float* mean,
                float* inv_std) {
  // Sums of x - x0, x0 the first row: the variance of values far from zero keeps its digits.
  std::vector<float> origin(static_cast<std::size_t>(view.c));
  for (std::size_t i = 0; i < origin.size(); ++i) origin[i] = static_cast<float>(x[i]);
  const auto wide = view.spread(origin.data());
  std::vector<double> sum(origin.size()), squares(origin.size());
  const float* o = wide.data();
  column_sums(view, pieces, sum.data(), squares.data(),
              [x, o]<class D, class V>(D d, i64 at, i64 col, V& first, V& second) HWY_ATTR {
                const V away = hn::Sub(load(d, x + at), load(d, o + col));
                first = hn::Add(first, away);
                second = hn::MulAdd(away, away, second);
              });
  for (std::size_t i = 0; i < origin.size(); ++i) {
    const double m = sum[i] / rows;
    const double variance = std::max(0.0, squares[i] / rows - m * m);
    mean[i] = static_cast<float>(m + static_cast<double>(origin[i]));
    inv_std[i] = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(eps)));
  }
}

template <class T, bool with_relu, bool wants_add>
void backward(const View& view, i64 pieces, double rows, const T* dy, const T* x, const T* y,
              const Norm& norm, const NormGrads& grads, T* d_add) {
  const float *scale = norm.scale.as<float>(), *mean = norm.mean.as<float>(),
              *inv_std = norm.inv_std.as<float>();
  float *d_scale = grads.d_scale.as<float>(), *d_shift = grads.d_shift.as<float>();
  T* dx = grads.dx.as<T>();
  const auto n = static_cast<std::size_t>(view.c);
  std::vector<double> sum(n), sum_x(n);
  const auto wide_mean = view.spread(mean);
  const float* m = wide_mean.data();
  column_sums(view, pieces, sum.data(), sum_x.data(),
              [=]<class D, class V>(D d, i64 at, i64 col, V& first, V& second) HWY_ATTR {
                V g = load(d, dy + at);
                if constexpr (with_relu) g = positive(d, load(d, y + at), g);
                first = hn::Add(first, g);
                second = hn::MulAdd(g, hn::Sub(load(d, x + at), load(d, m + col)), second);
              });
  // dx = gain g + slope x + constant per channel
  std::vector<float> gain(n), slope(n), constant(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double inv = static_cast<double>(inv_std[i]),
                 through = static_cast<double>(scale[i]) * inv;
    d_shift[i] = static_cast<float>(sum[i]);
    d_scale[i] = static_cast<float>(sum_x[i] * inv);
    gain[i] = static_cast<float>(through);
    if (norm.given) continue;  // the others are zero
    const double slope_i = -through * inv * inv * sum_x[i] / rows;
    slope[i] = static_cast<float>(slope_i);
    constant[i] =
        static_cast<float>(-through * sum[i] / rows - slope_i * static_cast<double>(mean[i]));
  }
  const auto wide_gain = view.spread(gain.data()), wide_slope = view.spread(slope.data()),
             wide_constant = view.spread(constant.data());
  const float *gains = wide_gain.data(), *slopes = wide_slope.data(),
              *constants = wide_constant.data();
  all_elements(view, pieces, [=](auto d, i64 at, i64 col) HWY_ATTR {
    auto g = load(d, dy + at);
    if constexpr (with_relu) g = positive(d, load(d, y + at), g);
    const auto rest = hn::MulAdd(load(d, slopes + col), load(d, x + at), load(d, constants + col));
    const auto out = hn::MulAdd(load(d, gains + col), g, rest);
    // behind all loads: blocks of memory begin alike, and a load waits for a store whose address
    // has the same last 12 bits
    if constexpr (wants_add) {
      ask_for(d_add + at);
      store(d, g, d_add + at);
    }
    store(d, out, dx + at);
  });
}

View view_of(const Tensor& x) { return View(x.numel() / x.shape(-1), x.shape(-1)); }

void statistics_of(Norm& n, float eps) {
  note_run(Kernel::batch_norm, HWY_TARGET);
  const View view = view_of(n.x);
  with_floating(n.x.dtype(), "batch_norm", [&]<class T>() HWY_ATTR {
    statistics<T>(view, pieces_of(n.x.numel()), n.x.as<T>(),
                  static_cast<double>(n.x.numel() / view.c), eps, n.mean.as<float>(),
                  n.inv_std.as<float>());
  });
}

void apply(const Norm& n, const Tensor* add, bool relu, Tensor& y) {
  note_run(Kernel::batch_norm, HWY_TARGET);
  if (n.x.numel() == 0) return;
  const View view = view_of(n.x);
  const auto a = view.spread(n.a.as<float>()), b = view.spread(n.b.as<float>());
  with_floating(n.x.dtype(), "batch_norm", [&]<class T>() HWY_ATTR {
    const auto run = [&]<bool has_add, bool with_relu>() HWY_ATTR {
      affine<T, has_add, with_relu>(view, pieces_of(n.x.numel()), n.x.as<T>(),
                                    has_add ? add->as<T>() : nullptr, a.data(), b.data(),
                                    y.as<T>());
    };
    if (add)
      relu ? run.template operator()<true, true>() : run.template operator()<true, false>();
    else
      relu ? run.template operator()<false, true>() : run.template operator()<false, false>();
  });
}

void back(const Norm& n, const Tensor* y, const Tensor& dy, const NormGrads& grads, Tensor* d_add) {
  note_run(Kernel::batch_norm, HWY_TARGET);
  if (n.x.numel() == 0) {
    for (Tensor t : {grads.d_scale, grads.d_shift}) t.zero();
    return;
  }
  const View view = view_of(n.x);
  const double rows = static_cast<double>(n.x.numel() / view.c);
  with_floating(n.x.dtype(), "batch_norm", [&]<class T>() HWY_ATTR {
    const auto run = [&]<bool masked, bool wants_add>() HWY_ATTR {
      backward<T, masked, wants_add>(view, pieces_of(n.x.numel()), rows, dy.as<T>(), n.x.as<T>(),
                                     masked ? y->as<T>() : nullptr, n, grads,
                                     wants_add ? d_add->as<T>() : nullptr);
    };
    if (y)
      d_add ? run.template operator()<true, true>() : run.template operator()<true, false>();
    else
      d_add ? run.template operator()<false, true>() : run.template operator()<false, false>();
  });
}

}  // namespace
}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::cpu {

HWY_EXPORT(statistics_of);
void batch_statistics(Norm& n, float eps) { HWY_DYNAMIC_DISPATCH(statistics_of)(n, eps); }

HWY_EXPORT(apply);
void batch_norm(const Norm& n, const Tensor* add, bool relu, Tensor& y) {
  HWY_DYNAMIC_DISPATCH(apply)(n, add, relu, y);
}

HWY_EXPORT(back);
void batch_norm_back(const Norm& n, const Tensor* y, const Tensor& dy, const NormGrads& grads,
                     Tensor* d_add) {
  HWY_DYNAMIC_DISPATCH(back)(n, y, dy, grads, d_add);
}

}  // namespace gossamer::cpu
#endif
