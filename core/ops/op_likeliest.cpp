// The likeliest ids of each row of logits, for a beam search: a block of threads a row goes over it
// once for each id, and looks for the largest number behind the last.
#include <cmath>

#include "gossamer/core/ops/decode.h"
#include "gossamer/core/ops/exponential.h"
#include "gossamer/core/ops/grid.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

constexpr const char* kOp = "likeliest";

template <class T>
struct LikeliestIds {
  static constexpr int threads = 256, phases = 3;
  struct Shared {
    double sums[threads];
    float tops[threads];
    std::int32_t ids[threads];
    // what thread 0 has found
    float top, last;
    std::int32_t last_id;
    double log_sum;  // of exp(logit - top)
  };
  struct State {
    i64 found = 0;
  };
  const T* logits;
  i64 columns, wanted;
  std::int32_t* ids;
  float* log_p;

  // The second round also adds up the row, so there are two at least.
  GOSSAMER_HD i64 rounds() const { return wanted > 2 ? wanted : 2; }
  GOSSAMER_HD bool again(i64, const Shared&, const State& state) const {
    return state.found < rounds();
  }
  // An order in which no two logits are equal; a NaN comes nowhere.
  GOSSAMER_HD static bool before(float x, i64 id, float y, i64 other) {
    return x > y || (x == y && id < other);
  }

  template <int phase>
  GOSSAMER_HD void run(i64 block, int t, Shared& shared, State& state) const {
    if constexpr (phase == 0) {
      const T* row = logits + block * columns;
      float best = 0;
      std::int32_t id = -1;
      double sum = 0;
      for (i64 i = t; i < columns; i += threads) {
        const float x = load(row, i);
        if (state.found == 1) sum += static_cast<double>(exp_of(x - shared.top));
        if (x != x || (state.found > 0 && !before(shared.last, shared.last_id, x, i))) continue;
        if (id < 0 || x > best) best = x, id = static_cast<std::int32_t>(i);
      }
      shared.tops[t] = best;
      shared.ids[t] = id;
      shared.sums[t] = sum;
    } else if constexpr (phase == 1) {
      if (t > 0) return;
      float best = -__builtin_inff();
      std::int32_t id = -1;
      double sum = 0;
      for (int i = 0; i < threads; ++i) {
        sum += shared.sums[i];
        if (shared.ids[i] >= 0 && (id < 0 || before(shared.tops[i], shared.ids[i], best, id)))
          best = shared.tops[i], id = shared.ids[i];
      }
      if (state.found == 0) shared.top = best;
      if (state.found == 1) {
        shared.log_sum = ::log(sum);
        log_p[block * wanted] = static_cast<float>(-shared.log_sum);
      }
      shared.last = best;
      shared.last_id = id;
      if (state.found >= wanted) return;
      ids[block * wanted + state.found] = id;
      if (state.found > 0)
        log_p[block * wanted + state.found] = static_cast<float>(
            static_cast<double>(best) - static_cast<double>(shared.top) - shared.log_sum);
    } else {
      ++state.found;
    }
  }
};

}  // namespace

Likeliest likeliest(const Tensor& logits, i64 count) {
  detail::check_floating(kOp, "logits", logits);
  check<ShapeError>(logits.rank() == 2 && count >= 1 && count <= logits.shape(1), kOp, ": ", count,
                    " ids of logits ", logits.shape(), "; wanted 1 to V of [R, V]");
  const i64 rows = logits.shape(0);
  Likeliest out{Tensor::empty({rows, count}, DType::i32, logits.device()),
                Tensor::empty({rows, count}, DType::f32, logits.device())};
  with_floating(logits.dtype(), kOp, [&]<class T>() {
    for_each_block(logits.device(), rows,
                   LikeliestIds<T>{logits.as<T>(), logits.shape(1), count,
                                   out.ids.as<std::int32_t>(), out.log_p.as<float>()});
  });
  return out;
}

}  // namespace gossamer
