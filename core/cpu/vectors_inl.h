// Vectors of floats as Highway has them, compiled once for each kind of CPU: of 8 lanes for AVX2,
// 16 for AVX-512, 4 for NEON. Memory may hold f32, bf16 or f16; arithmetic is f32. Included by
// files that Highway includes again for each target (foreach_target.h), so it has no #pragma once.
#if defined(GOSSAMER_CORE_CPU_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GOSSAMER_CORE_CPU_VECTORS_INL_H
#undef GOSSAMER_CORE_CPU_VECTORS_INL_H
#else
#define GOSSAMER_CORE_CPU_VECTORS_INL_H
#endif

#include <hwy/highway.h>

#include "gossamer/core/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Floats>;
constexpr i64 kLanes = static_cast<i64>(hn::MaxLanes(Floats()));
// AVX-512 and NEON have 32 registers for vectors, AVX2 has 16.
constexpr bool kManyRegisters = kLanes != 8;

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const bf16* p) {
  const hn::Rebind<std::uint16_t, D> half;
  const hn::RebindToUnsigned<D> whole;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(
                            whole, hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(p)))));
}
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const f16* p) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, float* p) {
  hn::StoreU(v, d, p);
}
// To the nearest, ties to even, as bf16(float) does; Highway 1.0 cuts off.
template <class D>
HWY_INLINE void store(D, hn::Vec<D> v, bf16* p) {
  const hn::Rebind<std::uint16_t, D> half;
  const hn::RebindToUnsigned<D> whole;
  const hn::RebindToSigned<D> number;
  const auto u = hn::BitCast(whole, v), upper = hn::ShiftRight<16>(u);
  const auto rounded = hn::ShiftRight<16>(
      hn::Add(u, hn::Add(hn::Set(whole, 0x7fffu), hn::And(upper, hn::Set(whole, 1u)))));
  const auto nan = hn::Or(upper, hn::Set(whole, 0x40u));
  const auto bits = hn::IfThenElse(hn::RebindMask(whole, hn::IsNaN(v)), nan, rounded);
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(number, bits)), half,
             reinterpret_cast<std::uint16_t*>(p));
}
template <class D>
HWY_INLINE void store(D, hn::Vec<D> v, f16* p) {
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::float16_t*>(p));
}

// x where v > 0, else 0.
template <class D>
HWY_INLINE hn::Vec<D> positive(D d, hn::Vec<D> v, hn::Vec<D> x) {
  return hn::IfThenElseZero(hn::Gt(v, hn::Zero(d)), x);
}
// max(v, 0); NaN stays NaN, so that a diverged model shows it.
template <class D>
HWY_INLINE hn::Vec<D> relu(D d, hn::Vec<D> v) {
  return hn::IfThenZeroElse(hn::Le(v, hn::Zero(d)), v);
}

}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
