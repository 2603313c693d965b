// Products of pairs of bf16 by AMX: eight registers ("tiles") of 16 rows of 16 numbers each, and an
// instruction that multiplies two of them. Only beside AVX-512. Included once for each kind of CPU
// (vectors_inl.h).
#if defined(GOSSAMER_CORE_CPU_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GOSSAMER_CORE_CPU_TILES_INL_H
#undef GOSSAMER_CORE_CPU_TILES_INL_H
#else
#define GOSSAMER_CORE_CPU_TILES_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "gossamer/core/cpu/terms_inl.h"

namespace gossamer::cpu::HWY_NAMESPACE {

// What a thread must set up while it multiplies numbers of type N: nothing but for tiles.
template <class N>
class InUse {};

}  // namespace gossamer::cpu::HWY_NAMESPACE

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {

// While one of these lives, the tile registers are configured, each for 16 x 16 numbers.
template <>
class InUse<TiledPair> {
 public:
  InUse() {
    alignas(64) static constexpr struct {
      std::uint8_t palette = 1, start = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shape{};
    static_assert(sizeof shape == 64);
    asm volatile("ldtilecfg %0" ::"m"(shape));
  }
  ~InUse() { asm volatile("tilerelease"); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
};

// Not the intrinsics, which only functions compiled for AMX may use, and which do not tell the
// compiler that they read and write memory. Tiles 0 to 3 are sums, 4 and 5 left, 6 and 7 right.
template <int tile>
HWY_INLINE void load_tile(const void* from, i64 row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row_bytes), "i"(tile) : "memory");
}
template <int tile>
HWY_INLINE void store_tile(void* to, i64 row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row_bytes), "i"(tile) : "memory");
}
template <int tile>
HWY_INLINE void clear_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile));
}
template <int sum, int left, int right>
HWY_INLINE void multiply_tile() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(left), "i"(right));
}

// c[i][j] (+)= sum over `depth` pairs of a[i][pair] b[pair][j], for i < 16 Down, j < 16 Across.
// depth: a multiple of kTileSide. b: rows of 16 Across pairs.
template <int Down, int Across, bool accumulate>
HWY_NOINLINE void multiply_tiles(i64 depth, const Pair* a, i64 a_row, const Pair* b, float* c,
                                 i64 c_row) {
  constexpr i64 size = sizeof(float);
  constexpr i64 b_bytes = Across * kTileSide * size;
  const i64 a_bytes = a_row * size, c_bytes = c_row * size;
  float* const below = c + kTileSide * c_row;
  if constexpr (accumulate) {
    load_tile<0>(c, c_bytes);
    if constexpr (Across > 1) load_tile<1>(c + kTileSide, c_bytes);
    if constexpr (Down > 1) load_tile<2>(below, c_bytes);
    if constexpr (Down > 1 && Across > 1) load_tile<3>(below + kTileSide, c_bytes);
  } else {
    clear_tile<0>();
    if constexpr (Across > 1) clear_tile<1>();
    if constexpr (Down > 1) clear_tile<2>();
    if constexpr (Down > 1 && Across > 1) clear_tile<3>();
  }
  for (i64 l = 0; l < depth; l += kTileSide, a += kTileSide, b += Across * kTileSide * kTileSide) {
    load_tile<4>(a, a_bytes);
    load_tile<6>(b, b_bytes);
    multiply_tile<0, 4, 6>();
    if constexpr (Across > 1) {
      load_tile<7>(b + kTileSide, b_bytes);
      multiply_tile<1, 4, 7>();
    }
    if constexpr (Down > 1) {
      load_tile<5>(a + kTileSide * a_row, a_bytes);
      multiply_tile<2, 5, 6>();
    }
    if constexpr (Down > 1 && Across > 1) multiply_tile<3, 5, 7>();
  }
  store_tile<0>(c, c_bytes);
  if constexpr (Across > 1) store_tile<1>(c + kTileSide, c_bytes);
  if constexpr (Down > 1) store_tile<2>(below, c_bytes);
  if constexpr (Down > 1 && Across > 1) store_tile<3>(below + kTileSide, c_bytes);
}

// The same where c has only `rows` <= kTileRows rows; a has kTileRows.
template <int Across, bool accumulate>
HWY_INLINE void multiply_tile_rows(i64 rows, i64 depth, const Pair* a, i64 a_row, const Pair* b,
                                   float* c, i64 c_row) {
  if (rows == kTileRows) return multiply_tiles<2, Across, accumulate>(depth, a, a_row, b, c, c_row);
  constexpr i64 columns = Across * kTileSide;
  alignas(64) float sums[kTileRows * columns];
  if constexpr (accumulate) {
    for (i64 i = 0; i < rows; ++i) std::copy_n(c + i * c_row, columns, sums + i * columns);
  }
  if (rows > kTileSide)
    multiply_tiles<2, Across, accumulate>(depth, a, a_row, b, sums, columns);
  else
    multiply_tiles<1, Across, accumulate>(depth, a, a_row, b, sums, columns);
  for (i64 i = 0; i < rows; ++i) std::copy_n(sums + i * columns, columns, c + i * c_row);
}

// Transposes 16 x 16 numbers: to[j to_row + i] = number j of get_row(i).
template <class GetRow>
HWY_INLINE void transpose_tile(const GetRow& get_row, Pair* to, i64 to_row) {
  const Floats d;
  const hn::Repartition<double, Floats> twos;
  Vector part[4][4];  // block b of part[g][j]: numbers 4 b + j of rows 4 g to 4 g + 3
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    const Vector v0 = get_row(4 * g), v1 = get_row(4 * g + 1), v2 = get_row(4 * g + 2),
                 v3 = get_row(4 * g + 3);
    const auto low01 = hn::BitCast(twos, hn::InterleaveLower(d, v0, v1)),
               low23 = hn::BitCast(twos, hn::InterleaveLower(d, v2, v3)),
               high01 = hn::BitCast(twos, hn::InterleaveUpper(d, v0, v1)),
               high23 = hn::BitCast(twos, hn::InterleaveUpper(d, v2, v3));
    part[g][0] = hn::BitCast(d, hn::InterleaveLower(twos, low01, low23));
    part[g][1] = hn::BitCast(d, hn::InterleaveUpper(twos, low01, low23));
    part[g][2] = hn::BitCast(d, hn::InterleaveLower(twos, high01, high23));
    part[g][3] = hn::BitCast(d, hn::InterleaveUpper(twos, high01, high23));
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const auto blocks = [&](auto choice, Vector a, Vector b) HWY_ATTR {
      return Vector{_mm512_shuffle_f32x4(a.raw, b.raw, decltype(choice)::value)};
    };
    using First = std::integral_constant<int, 0x44>;
    using Last = std::integral_constant<int, 0xee>;
    using Even = std::integral_constant<int, 0x88>;
    using Odd = std::integral_constant<int, 0xdd>;
    const Vector first01 = blocks(First(), part[0][j], part[1][j]),
                 last01 = blocks(Last(), part[0][j], part[1][j]),
                 first23 = blocks(First(), part[2][j], part[3][j]),
                 last23 = blocks(Last(), part[2][j], part[3][j]);
    store_numbers(d, blocks(Even(), first01, first23), to + j * to_row);
    store_numbers(d, blocks(Odd(), first01, first23), to + (4 + j) * to_row);
    store_numbers(d, blocks(Even(), last01, last23), to + (8 + j) * to_row);
    store_numbers(d, blocks(Odd(), last01, last23), to + (12 + j) * to_row);
  }
}

}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
