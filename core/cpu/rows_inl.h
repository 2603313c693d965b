// Walks along a row in vectors, with single numbers at its end. Included once for each kind of CPU
// (vectors_inl.h).
#if defined(GOSSAMER_CORE_CPU_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GOSSAMER_CORE_CPU_ROWS_INL_H
#undef GOSSAMER_CORE_CPU_ROWS_INL_H
#else
#define GOSSAMER_CORE_CPU_ROWS_INL_H
#endif

#include "gossamer/core/cpu/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {

using OneFloat = hn::CappedTag<float, 1>;

// f(d, c) for vectors of type D from column c on, which together are [0, cols).
template <class F>
HWY_INLINE void for_columns(i64 cols, F&& f) {
  i64 c = 0;
  for (; c + kLanes <= cols; c += kLanes) f(Floats(), c);
  for (; c < cols; ++c) f(OneFloat(), c);
}

// A running value (a sum, a maximum) along a row that for_columns reads: a vector, and one number
// for the row's end. Call it with what was read.
template <class Join>
class Running {
 public:
  explicit HWY_INLINE Running(float start) : lanes_(hn::Set(Floats(), start)), rest_(start) {}
  HWY_INLINE void operator()(Floats d, Vector v) { lanes_ = Join::of(d, lanes_, v); }
  HWY_INLINE void operator()(OneFloat d, hn::Vec<OneFloat> v) {
    rest_ = hn::GetLane(Join::of(d, hn::Set(d, rest_), v));
  }
  HWY_INLINE float value() const { return Join::lanes(Floats(), lanes_, rest_); }

 private:
  Vector lanes_;
  float rest_;
};
struct JoinSum {
  template <class D>
  static HWY_INLINE hn::Vec<D> of(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::Add(a, b);
  }
  static HWY_INLINE float lanes(Floats d, Vector v, float rest) {
    return hn::GetLane(hn::SumOfLanes(d, v)) + rest;
  }
};
using RunningSum = Running<JoinSum>;

}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
