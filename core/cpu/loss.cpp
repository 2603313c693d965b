// See loss.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gossamer/core/cpu/loss.cpp"
// This file is compiled once for each kind of CPU.
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <cmath>

#include "gossamer/core/cpu/exp_inl.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/loss.h"
#include "gossamer/core/cpu/rows_inl.h"
#include "gossamer/core/ops/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {
namespace {

struct JoinTop {  // the larger one; a NaN stays and shows
  template <class D>
  static HWY_INLINE hn::Vec<D> of(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  }
  static HWY_INLINE float lanes(Floats d, Vector v, float rest) {
    float lane[16], top = rest;
    store(d, v, lane);
    for (i64 i = 0; i < kLanes; ++i) top = lane[i] > top || lane[i] != lane[i] ? lane[i] : top;
    return top;
  }
};

// One row: its loss, and dz, if wanted, written over z or elsewhere.
template <class T, class G>
float loss_of(const T* z, i64 cols, i64 label, float smoothing, G* dz) {
  Running<JoinTop> tops(gossamer::load(z, label));
  for_columns(cols, [&](auto d, i64 c) HWY_ATTR { tops(d, load(d, z + c)); });
  const float top = tops.value(), own = gossamer::load(z, label);
  RunningSum sums(0), all(0);
  for_columns(cols, [&](auto d, i64 c) HWY_ATTR {
    const auto v = hn::Sub(load(d, z + c), hn::Set(d, top));
    sums(d, exponential(d, v));
    all(d, v);
  });
  // log p = z - top - log_sum, subtracted one after the other: in one number a large top would
  // swallow the digits of log_sum.
  const float log_sum = std::log(sums.value()), classes = static_cast<float>(cols);
  float loss = (1 - smoothing) * (log_sum - (own - top));
  if (smoothing > 0) loss += smoothing * (log_sum - all.value() / classes);
  if (!dz) return loss;
  const float spread = smoothing / classes;
  for_columns(cols, [&](auto d, i64 c) HWY_ATTR {
    const auto v = hn::Sub(hn::Sub(load(d, z + c), hn::Set(d, top)), hn::Set(d, log_sum));
    store(d, hn::Sub(exponential(d, v), hn::Set(d, spread)), dz + c);
  });
  // once more for the label, so that 16 bits round only once
  gossamer::store(dz, label, std::exp(own - top - log_sum) - spread - (1 - smoothing));
  return loss;
}

void loss_rows(const Tensor& logits, const Tensor& labels, const LossRows& how, Tensor& losses,
               const Tensor& dz) {
  note_run(Kernel::loss, HWY_TARGET);
  const i64 rows = logits.shape(0), cols = logits.shape(1);
  const std::int32_t* label = labels.as<std::int32_t>();
  float* loss = losses.as<float>();
  const DType gradients = dz.defined() ? dz.dtype() : logits.dtype();
  with_floating(logits.dtype(), gradients, "softmax_loss", [&]<class T, class G>() HWY_ATTR {
    const T* z = logits.as<T>();
    G* gradient = dz.defined() ? dz.as<G>() : nullptr;
    parallel_for(rows, (1 << 12) / cols + 1, [&](i64 begin, i64 end) HWY_ATTR {
      for (i64 r = begin; r < end; ++r) {
        G* to = gradient ? gradient + r * cols : nullptr;
        if (!how.ignores || label[r] != how.ignore) {
          loss[r] = loss_of(z + r * cols, cols, label[r], how.label_smoothing, to);
        } else {
          loss[r] = 0;
          if (to) std::fill(to, to + cols, G(0.0f));
        }
      }
    });
  });
}

}  // namespace
}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::cpu {

HWY_EXPORT(loss_rows);
void softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows& how, Tensor& losses,
                  const Tensor& dz) {
  HWY_DYNAMIC_DISPATCH(loss_rows)(logits, labels, how, losses, dz);
}

}  // namespace gossamer::cpu
#endif
