// Batch norm on the CPU. Memory bounds it, so each pass does all that it can and goes through
// memory in order, as the CPU's prefetcher expects. What it needs of each channel is in the cache.
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
#include <optional>
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
  i64 c, rest;              // and `rest` < fold rows of c after them
  View(i64 all_rows, i64 channels) : c(channels) {
    fold = channels < kColumns && kColumns % channels == 0 ? kColumns / channels : 1;
    rows = all_rows / fold;
    columns = channels * fold;
    rest = all_rows - rows * fold;
  }
  std::vector<float> repeated(const float* per_channel) const {
    std::vector<float> wide(static_cast<std::size_t>(columns));
    for (i64 i = 0; i < columns; ++i) wide[static_cast<std::size_t>(i)] = per_channel[i % c];
    return wide;
  }
};

// Prefetches memory that is written soon and not read before: the CPU's prefetcher follows reads
// only.
template <class T>
HWY_INLINE void prefetch_for_writing(T* p) {
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

// A normalised tensor: a x + b, with a and b for each column.
template <class T>
struct Affine {
  const T* x;
  std::vector<float> a, b;
  Affine(const View& view, const Norm& n)
      : x(n.x.as<T>()), a(view.repeated(n.a.as<float>())), b(view.repeated(n.b.as<float>())) {}
};

// What joins a normalised tensor before the ReLU.
enum class Joins { nothing, add, second };

// y = relu?(a x + b (+ add | + second's a x + b))
template <class T, Joins joins, bool with_relu>
void affine(const View& view, i64 pieces, const Affine<T>& one, const T* add,
            const Affine<T>* second, T* y) {
  const T* x = one.x;
  const float *a = one.a.data(), *b = one.b.data();
  const T* x2 = second ? second->x : nullptr;
  const float *a2 = second ? second->a.data() : nullptr, *b2 = second ? second->b.data() : nullptr;
  all_elements(view, pieces, [=](auto d, i64 at, i64 col) HWY_ATTR {
    auto out = hn::MulAdd(load(d, x + at), load(d, a + col), load(d, b + col));
    if constexpr (joins == Joins::add) out = hn::Add(out, load(d, add + at));
    if constexpr (joins == Joins::second)
      out = hn::Add(out, hn::MulAdd(load(d, x2 + at), load(d, a2 + col), load(d, b2 + col)));
    if constexpr (with_relu) out = relu(d, out);
    prefetch_for_writing(y + at);
    store(d, out, y + at);
  });
}

template <class T>
void statistics(const View& view, i64 pieces, const T* x, double rows, float eps, float* mean,
                float* inv_std) {
  // Sums of x - x0, x0 the first row: the variance of values far from zero keeps its digits.
  std::vector<float> origin(static_cast<std::size_t>(view.c));
  for (std::size_t i = 0; i < origin.size(); ++i) origin[i] = static_cast<float>(x[i]);
  const auto wide = view.repeated(origin.data());
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

// How the gradient passes the ReLU: where y > 0; or where a x + b > 0, which needs no third tensor
// but has to have the bits of the forward pass, so nothing may have been added.
enum class Gate { open, by_output, by_input };

template <class T, Gate gate, bool wants_add>
void backward(const View& view, i64 pieces, double rows, const T* dy, const T* y, const Norm& norm,
              const NormGrads& grads, T* d_add) {
  const float *scale = norm.scale.as<float>(), *mean = norm.mean.as<float>(),
              *inv_std = norm.inv_std.as<float>();
  float *d_scale = grads.d_scale.as<float>(), *d_shift = grads.d_shift.as<float>();
  T* dx = grads.dx.as<T>();
  const Affine<T> forward(view, norm);
  const T* x = forward.x;
  const float *a = forward.a.data(), *b = forward.b.data();
  const auto n = static_cast<std::size_t>(view.c);
  std::vector<double> sum(n), sum_x(n);
  const auto wide_mean = view.repeated(mean);
  const float* m = wide_mean.data();
  const auto passed = [=]<class D, class V>(D d, i64 at, [[maybe_unused]] i64 col,
                                            [[maybe_unused]] V x_at) HWY_ATTR {
    const V g = load(d, dy + at);
    if constexpr (gate == Gate::by_output) return positive(d, load(d, y + at), g);
    if constexpr (gate == Gate::by_input)
      return positive(d, hn::MulAdd(x_at, load(d, a + col), load(d, b + col)), g);
    return g;
  };
  column_sums(view, pieces, sum.data(), sum_x.data(),
              [=]<class D, class V>(D d, i64 at, i64 col, V& first, V& second) HWY_ATTR {
                const V x_at = load(d, x + at), g = passed(d, at, col, x_at);
                first = hn::Add(first, g);
                second = hn::MulAdd(g, hn::Sub(x_at, load(d, m + col)), second);
                if constexpr (wants_add) {
                  if (d_add != dy) prefetch_for_writing(d_add + at);
                  store(d, g, d_add + at);
                }
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
  const auto wide_gain = view.repeated(gain.data()), wide_slope = view.repeated(slope.data()),
             wide_constant = view.repeated(constant.data());
  const float *gains = wide_gain.data(), *slopes = wide_slope.data(),
              *constants = wide_constant.data();
  all_elements(view, pieces, [=](auto d, i64 at, i64 col) HWY_ATTR {
    const auto x_at = load(d, x + at);
    // what the sums' pass has left there is read instead of dy and y
    const auto g = wants_add ? load(d, d_add + at) : passed(d, at, col, x_at);
    const auto rest = hn::MulAdd(load(d, slopes + col), x_at, load(d, constants + col));
    store(d, hn::MulAdd(load(d, gains + col), g, rest), dx + at);
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

void apply(const Norm& n, const Tensor* add, const Norm* second, bool relu, Tensor& y) {
  note_run(Kernel::batch_norm, HWY_TARGET);
  if (n.x.numel() == 0) return;
  const View view = view_of(n.x);
  with_floating(n.x.dtype(), "batch_norm", [&]<class T>() HWY_ATTR {
    const Affine<T> one(view, n);
    const auto two = second ? std::make_optional<Affine<T>>(view, *second) : std::nullopt;
    const auto run = [&]<Joins joins, bool with_relu>() HWY_ATTR {
      affine<T, joins, with_relu>(view, pieces_of(n.x.numel()), one, add ? add->as<T>() : nullptr,
                                  two ? &*two : nullptr, y.as<T>());
    };
    const auto joined = [&]<Joins joins>() HWY_ATTR {
      relu ? run.template operator()<joins, true>() : run.template operator()<joins, false>();
    };
    if (second)
      joined.template operator()<Joins::second>();
    else if (add)
      joined.template operator()<Joins::add>();
    else
      joined.template operator()<Joins::nothing>();
  });
}

void back(const Norm& n, bool relu, const Tensor* y, const Tensor& dy, const NormGrads& grads,
          Tensor* d_add) {
  note_run(Kernel::batch_norm, HWY_TARGET);
  if (n.x.numel() == 0) {
    for (Tensor t : {grads.d_scale, grads.d_shift}) t.zero();
    return;
  }
  const View view = view_of(n.x);
  const double rows = static_cast<double>(n.x.numel() / view.c);
  with_floating(n.x.dtype(), "batch_norm", [&]<class T>() HWY_ATTR {
    const auto run = [&]<Gate gate, bool wants_add>() HWY_ATTR {
      backward<T, gate, wants_add>(view, pieces_of(n.x.numel()), rows, dy.as<T>(),
                                   y ? y->as<T>() : nullptr, n, grads,
                                   wants_add ? d_add->as<T>() : nullptr);
    };
    const auto gated = [&]<Gate gate>() HWY_ATTR {
      d_add ? run.template operator()<gate, true>() : run.template operator()<gate, false>();
    };
    if (!relu)
      gated.template operator()<Gate::open>();
    else if (y)
      gated.template operator()<Gate::by_output>();
    else
      gated.template operator()<Gate::by_input>();
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
void batch_norm(const Norm& n, const Tensor* add, const Norm* second, bool relu, Tensor& y) {
  HWY_DYNAMIC_DISPATCH(apply)(n, add, second, relu, y);
}

HWY_EXPORT(back);
void batch_norm_back(const Norm& n, bool relu, const Tensor* y, const Tensor& dy,
                     const NormGrads& grads, Tensor* d_add) {
  HWY_DYNAMIC_DISPATCH(back)(n, relu, y, dy, grads, d_add);
}

}  // namespace gossamer::cpu
#endif
