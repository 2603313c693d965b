// Eight neighbouring channels of a row: what one thread of a kernel handles. 16 bytes of bf16 or
// f16, 32 of f32, as vector loads and stores.
#pragma once

#include <type_traits>

#include "gossamer/core/ops/kernel.h"

// Before a loop of constant length whose array must stay in registers.
#ifdef __CUDA_ARCH__
#define GOSSAMER_UNROLL _Pragma("unroll")
#define GOSSAMER_ROLL _Pragma("unroll 1")  // before one that is rarely run: less code
#else
#define GOSSAMER_UNROLL
#define GOSSAMER_ROLL
#endif

namespace gossamer {

struct Eight {
  float v[8];
};

// Values that are used once bypass the cache, so that what the next kernel reads stays in it.
enum class Reuse { later, never };

namespace detail {
#ifdef __CUDA_ARCH__
template <Reuse reuse>
__device__ inline uint4 load16(const void* p) {
  return reuse == Reuse::never ? __ldcs(static_cast<const uint4*>(p))
                               : *static_cast<const uint4*>(p);
}
template <Reuse reuse>
__device__ inline void store16(void* p, uint4 v) {
  if constexpr (reuse == Reuse::never)
    __stcs(static_cast<uint4*>(p), v);
  else
    *static_cast<uint4*>(p) = v;
}
// Two neighbours of a 16-bit type in one word. One instruction rounds both to nearest even, as the
// constructors do.
template <class T>
__device__ inline unsigned pack(float low, float high) {
  unsigned both;
  if constexpr (std::is_same_v<T, bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <class T>
__device__ inline void unpack(unsigned both, float& low, float& high) {
  if constexpr (std::is_same_v<T, bf16>) {
    low = __uint_as_float(both << 16);
    high = __uint_as_float(both & 0xffff0000u);
  } else {
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(low), "=f"(high)
        : "r"(both));
  }
}
#endif
}  // namespace detail

// whole: p is aligned to 16 bytes and all eight exist; else only the first `count`, the others read
// as 0.
template <bool whole, Reuse reuse = Reuse::later, class T>
GOSSAMER_HD inline Eight load_eight(const T* p, int count) {
  Eight e;
  if constexpr (!whole) {
    GOSSAMER_ROLL
    for (int j = 0; j < 8; ++j) e.v[j] = j < count ? static_cast<float>(p[j]) : 0.0f;
    return e;
  }
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2) {
    const uint4 u = detail::load16<reuse>(p);
    detail::unpack<T>(u.x, e.v[0], e.v[1]);
    detail::unpack<T>(u.y, e.v[2], e.v[3]);
    detail::unpack<T>(u.z, e.v[4], e.v[5]);
    detail::unpack<T>(u.w, e.v[6], e.v[7]);
  } else {
    const uint4 a = detail::load16<reuse>(p), b = detail::load16<reuse>(p + 4);
    e.v[0] = __uint_as_float(a.x);
    e.v[1] = __uint_as_float(a.y);
    e.v[2] = __uint_as_float(a.z);
    e.v[3] = __uint_as_float(a.w);
    e.v[4] = __uint_as_float(b.x);
    e.v[5] = __uint_as_float(b.y);
    e.v[6] = __uint_as_float(b.z);
    e.v[7] = __uint_as_float(b.w);
  }
#else
  for (int j = 0; j < 8; ++j) e.v[j] = static_cast<float>(p[j]);
#endif
  return e;
}

template <bool whole, Reuse reuse = Reuse::later, class T>
GOSSAMER_HD inline void store_eight(T* p, int count, const Eight& e) {
  if constexpr (!whole) {
    GOSSAMER_ROLL
    for (int j = 0; j < 8; ++j)
      if (j < count) p[j] = T(e.v[j]);
    return;
  }
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2) {
    detail::store16<reuse>(
        p, make_uint4(detail::pack<T>(e.v[0], e.v[1]), detail::pack<T>(e.v[2], e.v[3]),
                      detail::pack<T>(e.v[4], e.v[5]), detail::pack<T>(e.v[6], e.v[7])));
  } else {
    detail::store16<reuse>(p, make_uint4(__float_as_uint(e.v[0]), __float_as_uint(e.v[1]),
                                         __float_as_uint(e.v[2]), __float_as_uint(e.v[3])));
    detail::store16<reuse>(p + 4, make_uint4(__float_as_uint(e.v[4]), __float_as_uint(e.v[5]),
                                             __float_as_uint(e.v[6]), __float_as_uint(e.v[7])));
  }
#else
  for (int j = 0; j < 8; ++j) p[j] = T(e.v[j]);
#endif
}

// The same for eight bytes; those that don't exist are left alone.
template <bool whole>
GOSSAMER_HD inline void load_bytes(const std::uint8_t* p, int count, std::uint8_t* to) {
#ifdef __CUDA_ARCH__
  if constexpr (whole) {
    const uint2 both = *reinterpret_cast<const uint2*>(p);
    GOSSAMER_UNROLL
    for (int j = 0; j < 4; ++j) {
      to[j] = static_cast<std::uint8_t>(both.x >> (8 * j));
      to[j + 4] = static_cast<std::uint8_t>(both.y >> (8 * j));
    }
  } else
#endif
  {
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j)
      if (j < count) to[j] = p[j];
  }
}
template <bool whole>
GOSSAMER_HD inline void store_bytes(std::uint8_t* p, int count, const std::uint8_t* from) {
#ifdef __CUDA_ARCH__
  if constexpr (whole) {
    uint2 both = make_uint2(0, 0);
    GOSSAMER_UNROLL
    for (int j = 0; j < 4; ++j) {
      both.x |= static_cast<unsigned>(from[j]) << (8 * j);
      both.y |= static_cast<unsigned>(from[j + 4]) << (8 * j);
    }
    *reinterpret_cast<uint2*>(p) = both;
  } else
#endif
  {
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j)
      if (j < count) p[j] = from[j];
  }
}

inline bool aligned16(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

// for_each_row of a formula that also takes eight columns at once, f.eight(r, c): these if
// `eights`, which wants every group of eight to exist and to begin on 16 bytes. For GPUs: there a
// row is read in vectors.
namespace detail {
template <class F>
struct InEights {
  F f;
  i64 groups;  // of a row
  GOSSAMER_HD void operator()(i64 i) const {
    const i64 r = i / groups;
    f.eight(r, 8 * (i - r * groups));
  }
};
}  // namespace detail
template <class F>
void for_each_row_in_eights(Device device, i64 rows, i64 cols, const F& f, bool eights) {
  if (eights)
    for_each(device, rows * cols / 8, detail::InEights<F>{f, cols / 8});
  else
    for_each_row(device, rows, cols, f);
}

// A matrix [rows, cols] cut for blocks of 256 threads: `across` groups of eight columns beside each
// other, `down` rows below each other; `strips` such strips cover the columns. Blocks of a strip
// take its rows in turn, so that all of them together move through the tensor from one end to the
// other: the GPU's cache still holds the end that they reach last, where the next pass may start.
struct Tiles {
  static constexpr int threads = 256;
  i64 rows, cols;
  int across, down, strips;
  i64 parts;  // blocks of a strip
  bool backwards;

  // blocks: about how many to make. least: the fewest rows for which a thread of its own pays.
  static Tiles over(i64 rows, i64 cols, i64 blocks, bool backwards, i64 least = 4) {
    const i64 groups = (cols + 7) / 8, across = groups < 32 ? groups : 32, down = threads / across,
              strips = (groups + across - 1) / across;
    i64 parts = (blocks + strips - 1) / strips;
    const i64 most = (rows + down * least - 1) / (down * least);
    if (parts > most) parts = most;
    return {rows,
            cols,
            static_cast<int>(across),
            static_cast<int>(down),
            static_cast<int>(strips),
            parts < 1 ? 1 : parts,
            backwards};
  }
  i64 blocks() const { return parts * strips; }

  struct Place {
    // the block's part; the thread's first row; its first column
    i64 part, first, col;
    // its columns: 8, less at the edge; 0: nothing to do (its column is then 0, which exists)
    int count;
  };
  GOSSAMER_HD Place place(i64 block, int thread) const {
    const i64 part = block / strips;
    const int strip = static_cast<int>(block - part * strips), y = thread / across,
              x = thread - y * across;
    const i64 col = (static_cast<i64>(strip) * across + x) * 8, left = cols - col;
    if (y >= down || left <= 0) return {part, 0, 0, 0};
    return {part, part * down + y, col, left < 8 ? static_cast<int>(left) : 8};
  }
  // Calls load(row) for `batch` rows at once, so that their loads are in flight together, then
  // use(row, what was loaded).
  template <int batch, class Load, class Use>
  GOSSAMER_HD void for_rows(const Place& p, Load load, Use use) const {
    if (p.count == 0) return;
    const i64 step = parts * down;
    i64 r = p.first;
    for (; r + (batch - 1) * step < rows; r += batch * step) {
      decltype(load(r)) loaded[batch];
      GOSSAMER_UNROLL
      for (int i = 0; i < batch; ++i) loaded[i] = load(at(r + i * step));
      GOSSAMER_UNROLL
      for (int i = 0; i < batch; ++i) use(at(r + i * step), loaded[i]);
    }
    for (; r < rows; r += step) use(at(r), load(at(r)));
  }
  GOSSAMER_HD i64 at(i64 r) const { return backwards ? rows - 1 - r : r; }
};

}  // namespace gossamer
