// The exponential function in vectors. Included once for each kind of CPU (vectors_inl.h).
#if defined(GOSSAMER_CORE_CPU_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GOSSAMER_CORE_CPU_EXP_INL_H
#undef GOSSAMER_CORE_CPU_EXP_INL_H
#else
#define GOSSAMER_CORE_CPU_EXP_INL_H
#endif

#include "gossamer/core/cpu/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {

// exp(x) within 2 units of the last place, for x at most 88; 0 below -87.3, where f32 has no normal
// numbers. NaN stays NaN. exp(x) = 2^n exp(r), |r| <= ln(2)/2, with Cephes' polynomial (Moshier).
template <class D>
HWY_INLINE hn::Vec<D> exponential(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> whole;
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::Set(d, 1.9875691500e-4f);
  for (const float c :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = hn::MulAdd(p, r, hn::Set(d, c));
  p = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
  const auto power =
      hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(whole, n), hn::Set(whole, 127))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), hn::Mul(p, power));
}

}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
