// What a product multiplies at a time: one term of its sums in f32, or a pair of terms in bf16
// where the CPU has an instruction that multiplies both and adds them to a sum in f32, for a vector
// of pairs or for a tile of 16 vectors. Included once for each kind of CPU (vectors_inl.h).
#if defined(GOSSAMER_CORE_CPU_TERMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GOSSAMER_CORE_CPU_TERMS_INL_H
#undef GOSSAMER_CORE_CPU_TERMS_INL_H
#else
#define GOSSAMER_CORE_CPU_TERMS_INL_H
#endif

#include <cstring>
#include <type_traits>

#include "gossamer/core/cpu/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {

struct Pair {
  bf16 first, second;
};
struct TiledPair : Pair {};  // for AMX (tiles_inl.h)

// N: float, Pair or TiledPair. One N is called a number here: a vector holds kLanes of them.
template <class N>
constexpr i64 kTerms = std::is_base_of_v<Pair, N> ? 2 : 1;
template <class N>
constexpr bool kTiled = std::is_same_v<N, TiledPair>;
constexpr i64 kTileSide = 16;             // rows of a tile, and numbers of each
constexpr i64 kTileRows = 2 * kTileSide;  // rows of the left matrix that are multiplied at a time

constexpr bool kTilesExist = HWY_TARGET == HWY_AVX3;
constexpr bool kPairsExist = kTilesExist || HWY_ARCH_ARM_A64 == 1;

HWY_INLINE Vector broadcast(const float* p) { return hn::Set(Floats(), *p); }
HWY_INLINE Vector broadcast(const Pair* p) {
  const hn::RebindToUnsigned<Floats> bits;
  std::uint32_t both;
  std::memcpy(&both, p, sizeof both);
  return hn::BitCast(Floats(), hn::Set(bits, both));
}

// sum + the products of the terms
template <class N>
HWY_INLINE Vector multiply_add(Vector left, Vector right, Vector sum) {
  if constexpr (kTerms<N> == 1) {
    return hn::MulAdd(left, right, sum);
  } else {
#if HWY_TARGET == HWY_AVX3
    // not the intrinsic, which only functions compiled for avx512_bf16 may use
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(left.raw), "v"(right.raw));
#elif HWY_ARCH_ARM_A64
    asm(".arch_extension bf16\n\tbfdot %0.4s, %1.8h, %2.8h"
        : "+w"(sum.raw)
        : "w"(left.raw), "w"(right.raw));
#endif
    return sum;
  }
}

#if HWY_ARCH_ARM_A64
// sum + the products of the terms of one number of `left` with those of `right`. With the
// intrinsic, GCC 12 copies sums from register to register: 9 moves for 64 products.
template <int lane, class N>
HWY_INLINE Vector multiply_add_lane(Vector left, Vector right, Vector sum) {
  if constexpr (kTerms<N> == 1) {
    asm("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(sum.raw) : "w"(right.raw), "w"(left.raw), "i"(lane));
    return sum;
  } else {
    asm(".arch_extension bf16\n\tbfdot %0.4s, %1.8h, %2.2h[%3]"
        : "+w"(sum.raw)
        : "w"(right.raw), "w"(left.raw), "i"(lane));
    return sum;
  }
}
#endif

// Numbers whose terms lie one after the other from `from` on.
template <class N, class D, class T>
HWY_INLINE hn::Vec<D> along(D d, const T* from) {
  if constexpr (kTerms<N> == 1)
    return load(d, from);
  else
    return hn::LoadU(d, reinterpret_cast<const float*>(from));
}
// Numbers side by side, whose second terms lie a row further on, or are 0 without `both`.
template <class N, class D, class T>
HWY_INLINE hn::Vec<D> across(D d, const T* from, i64 row, bool both) {
  if constexpr (kTerms<N> == 1) {
    return load(d, from);
  } else {
    const hn::Rebind<std::uint16_t, D> half;
    const hn::RebindToUnsigned<D> whole;
    const auto term = [&](const T* p) HWY_ATTR {
      return hn::PromoteTo(whole, hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(p)));
    };
    auto v = term(from);
    if (both) v = hn::Or(v, hn::ShiftLeft<16>(term(from + row)));
    return hn::BitCast(d, v);
  }
}
// One number, whose second term lies `step` further on, or is 0.
template <class N, class T>
HWY_INLINE N number(const T* from, i64 step, bool both) {
  if constexpr (kTerms<N> == 1)
    return static_cast<float>(*from);
  else
    return N{*from, both ? from[step] : bf16()};
}
template <class D, class N>
HWY_INLINE void store_numbers(D d, hn::Vec<D> v, N* to) {
  hn::StoreU(v, d, reinterpret_cast<float*>(to));
}

}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
