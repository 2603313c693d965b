// Pooling and global averages on the CPU: rows of channels, so that the inner loops vectorise.
#include "gossamer/core/cpu/cpu_backend.h"
#include "gossamer/core/ops/kernel.h"

namespace gossamer {
namespace {

struct Range {
  i64 begin, end;
};
// Taps of output o that lie inside [0, extent).
inline Range taps_of(i64 o, i64 extent, const PoolGeometry& p) {
  const i64 first = o * p.stride - p.padding;
  return {first < 0 ? -first : 0, first + p.kernel > extent ? extent - first : p.kernel};
}
// Outputs whose window covers input i.
inline Range windows_of(i64 i, i64 outputs, const PoolGeometry& p) {
  // The first window that reaches input i is the first o with o * stride > reach.
  const i64 last = (i + p.padding) / p.stride, reach = i + p.padding - p.kernel;
  return {reach < 0 ? 0 : reach / p.stride + 1, last < outputs ? last + 1 : outputs};
}

constexpr i64 kBlock = 64;       // channels whose running results stay in registers or L1
constexpr i64 kGrain = 1 << 12;  // fewest elements of a result for which a thread pays

template <class T, bool maximum>
struct PoolForward {  // row: an output pixel
  const T* x;
  T* y;
  // tap of the first maximum, for backward; may be null
  std::uint8_t* taken;
  PoolGeometry p;
  float factor;  // of averages
  void operator()(i64 row, i64 begin, i64 end) const {
    const i64 n = row / (p.ho * p.wo), o = row / p.wo % p.ho, q = row % p.wo;
    const Range rows = taps_of(o, p.h, p), cols = taps_of(q, p.w, p);
    for (i64 at = begin; at < end; at += kBlock) {
      const i64 width = end - at < kBlock ? end - at : kBlock;
      float result[kBlock];
      int tap[kBlock];
      for (i64 c = 0; c < width; ++c) {
        result[c] = maximum ? -__builtin_huge_valf() : 0;
        if constexpr (maximum) tap[c] = static_cast<int>(rows.begin * p.kernel + cols.begin);
      }
      for (i64 r = rows.begin; r < rows.end; ++r)
        for (i64 s = cols.begin; s < cols.end; ++s) {
          const T* from =
              x +
              ((n * p.h + o * p.stride - p.padding + r) * p.w + q * p.stride - p.padding + s) *
                  p.c +
              at;
          [[maybe_unused]] const int here = static_cast<int>(r * p.kernel + s);
          for (i64 c = 0; c < width; ++c) {
            const float v = load(from, c);
            if constexpr (maximum) {
              const bool better = v > result[c] || v != v;  // a NaN wins and stays
              result[c] = better ? v : result[c];
              tap[c] = better ? here : tap[c];
            } else {
              result[c] += v;
            }
          }
        }
      for (i64 c = 0; c < width; ++c)
        store(y, row * p.c + at + c, maximum ? result[c] : factor * result[c]);
      if (maximum && taken)
        for (i64 c = 0; c < width; ++c)
          taken[row * p.c + at + c] = static_cast<std::uint8_t>(tap[c]);
    }
  }
};

// Backward of both poolings gathers: each input pixel asks the windows that cover it, so no two
// threads write one element.
template <class T, bool maximum>
struct PoolBackward {  // row: an input pixel
  const T* g;
  const std::uint8_t* taken;
  T* dx;
  PoolGeometry p;
  float factor;
  void operator()(i64 row, i64 begin, i64 end) const {
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
struct GlobalForward {  // row: an image
  const T* x;
  T* y;
  i64 pixels, cols;
  void operator()(i64 n, i64 begin, i64 end) const {
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
  void operator()(i64 row, i64 begin, i64 end) const {
    const float factor = 1.0f / static_cast<float>(pixels);
    const i64 n = row / pixels;
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) store(dx, row * cols + c, factor * load(g, n * cols + c));
  }
};

float factor_of(const PoolGeometry& p) { return 1.0f / static_cast<float>(p.kernel * p.kernel); }

}  // namespace

void CpuBackend::max_pool(const PoolGeometry& p, const Tensor& x, Tensor& y, const Tensor& taken) {
  with_floating(x.dtype(), "max_pool2d", [&]<class T>() {
    for_each_row(x.device(), p.n * p.ho * p.wo, p.c,
                 PoolForward<T, true>{x.as<T>(), y.as<T>(),
                                      taken.defined() ? taken.as<std::uint8_t>() : nullptr, p, 1},
                 kGrain);
  });
}

void CpuBackend::max_pool_back(const PoolGeometry& p, const Tensor& dy, const Tensor& taken,
                               Tensor& dx) {
  with_floating(dy.dtype(), "max_pool2d", [&]<class T>() {
    for_each_row(dy.device(), p.n * p.h * p.w, p.c,
                 PoolBackward<T, true>{dy.as<T>(), taken.as<std::uint8_t>(), dx.as<T>(), p, 1},
                 kGrain);
  });
}

void CpuBackend::avg_pool(const PoolGeometry& p, const Tensor& x, Tensor& y) {
  with_floating(x.dtype(), "avg_pool2d", [&]<class T>() {
    for_each_row(x.device(), p.n * p.ho * p.wo, p.c,
                 PoolForward<T, false>{x.as<T>(), y.as<T>(), nullptr, p, factor_of(p)}, kGrain);
  });
}

void CpuBackend::avg_pool_back(const PoolGeometry& p, const Tensor& dy, Tensor& dx) {
  with_floating(dy.dtype(), "avg_pool2d", [&]<class T>() {
    for_each_row(dy.device(), p.n * p.h * p.w, p.c,
                 PoolBackward<T, false>{dy.as<T>(), nullptr, dx.as<T>(), p, factor_of(p)}, kGrain);
  });
}

void CpuBackend::global_average(const Tensor& x, Tensor& y) {
  const i64 pixels = x.shape(1) * x.shape(2), cols = x.shape(3);
  with_floating(x.dtype(), "global_avg_pool", [&]<class T>() {
    for_each_row(x.device(), x.shape(0), cols, GlobalForward<T>{x.as<T>(), y.as<T>(), pixels, cols},
                 (1 << 14) / pixels + 1);
  });
}

void CpuBackend::global_average_back(const Tensor& dy, Tensor& dx) {
  const i64 pixels = dx.shape(1) * dx.shape(2), cols = dx.shape(3);
  with_floating(dx.dtype(), "global_avg_pool", [&]<class T>() {
    for_each_row(dx.device(), dx.shape(0) * pixels, cols,
                 GlobalBack<T>{dy.as<T>(), dx.as<T>(), pixels, cols});
  });
}

}  // namespace gossamer
