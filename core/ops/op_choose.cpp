// The next id of each text from its logits, without a wait for the device: a block of threads a
// row. Top-k and top-p look for the least logit that is kept, four of its bits at a time: how many
// logits, or how much weight, has each of the 16 digits? The draw then goes down from pieces of the
// row to one id. Sums are in a fixed order.
#include <algorithm>
#include <cmath>

#include "gossamer/core/ops/decode.h"
#include "gossamer/core/ops/exponential.h"
#include "gossamer/core/ops/grid.h"
#include "gossamer/core/ops/op_helpers.h"
#include "gossamer/core/random.h"

namespace gossamer {
namespace {

constexpr const char* kOp = "choose_ids";

// Unsigned numbers in the order of the floats.
GOSSAMER_HD inline std::uint32_t ordered(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

// Rng(seed).uniform53(), the n-th
GOSSAMER_HD inline double uniform53(std::uint64_t seed, std::uint32_t n) {
  const Philox::Four four = Philox(seed)(n / 2);
  const std::uint64_t high = four.v[n % 2 * 2], low = four.v[n % 2 * 2 + 1];
  return static_cast<double>(((high << 32) | low) >> 11) * 0x1p-53;
}

template <class T>
struct ChooseId {
  static constexpr int threads = 256, phases = 4, digits = 16;
  enum Step { find_top, cut_k, cut_p, draw, done };
  struct Shared {
    float bins[digits][threads + 1];  // a thread's column: number or weight of each digit
    double totals[digits], sums[threads];
    float tops[threads];
    std::int32_t ids[threads];
    // what thread 0 has decided
    Step step;
    int bits;                     // of the prefix
    std::uint32_t prefix, least;  // of the keys
    float top;
    bool begun;  // `left` is set
    double left;
    i64 begin, end, id;  // ids in question
  };
  struct State {
    bool first = true;
  };
  // The logits of a row, with the penalty of ids that its text has.
  struct Row {
    const T* logits;
    const std::uint8_t* seen;  // null: no penalty
    float penalty;
    GOSSAMER_HD float operator[](i64 i) const {
      const float x = load(logits, i);
      return seen == nullptr || seen[i] == 0 ? x : x > 0 ? x / penalty : x * penalty;
    }
  };
  const T* logits;
  i64 columns, known, top_k;
  float sharpness;  // 1/temperature; 0: the id with the largest logit
  double top_p;
  float min_p, penalty;
  std::uint8_t* seen;
  const i64* seeds;
  std::int32_t* counts;
  const std::int32_t* given;
  std::int32_t* ids;

  GOSSAMER_HD bool again(i64, const Shared& shared, const State&) const {
    return shared.step != done;
  }
  GOSSAMER_HD float weight(float x, float top) const { return exp_of((x - top) * sharpness); }

  template <int phase>
  GOSSAMER_HD void run(i64 block, int t, Shared& shared, State& state) const {
    const Row row{logits + block * columns, seen ? seen + block * columns : nullptr, penalty};
    if constexpr (phase == 0) {
      if (state.first)
        look_for_top(row, t, shared);
      else if (shared.step == draw)
        sum_piece(row, t, shared);
      else
        count_digits(row, t, shared);
    } else if constexpr (phase == 1) {
      if (t >= digits || state.first || shared.step == draw) return;
      double sum = 0;
      for (int i = 0; i < threads; ++i) sum += static_cast<double>(shared.bins[t][i]);
      shared.totals[t] = sum;
    } else if constexpr (phase == 2) {
      if (t > 0) return;
      if (state.first)
        begin_with_top(block, shared);
      else if (shared.step == draw)
        go_into_piece(block, shared);
      else
        take_digit(shared);
    } else {
      state.first = false;
      if (t > 0 || shared.step != done) return;
      const bool chosen = given[block] < 0;
      const i64 id = chosen ? shared.id : given[block];
      ids[block] = static_cast<std::int32_t>(id);
      if (seen && id >= 0 && id < columns) seen[block * columns + id] = 1;
      counts[block] += chosen;
    }
  }

 private:
  GOSSAMER_HD void look_for_top(const Row& row, int t, Shared& shared) const {
    float top = -__builtin_inff();
    std::int32_t id = -1;
    for (i64 i = t; i < known; i += threads) {
      const float x = row[i];
      if (x > top || x != x) top = x, id = static_cast<std::int32_t>(i);
      if (x != x) break;
    }
    shared.tops[t] = top;
    shared.ids[t] = id;
  }
  GOSSAMER_HD void begin_with_top(i64 block, Shared& shared) const {
    float top = -__builtin_inff();
    i64 id = -1;
    for (int i = 0; i < threads; ++i) {
      const float x = shared.tops[i];
      if (x > top || x != x || (x == top && shared.ids[i] < id)) top = x, id = shared.ids[i];
      if (x != x) break;
    }
    shared.top = top;
    shared.least = 0;
    const bool finite = top - top == 0;
    shared.id = finite ? id : -1;
    if (!finite || sharpness == 0 || given[block] >= 0) {
      shared.step = done;
      return;
    }
    shared.left = static_cast<double>(top_k);
    if (top_k > 0 && top_k < known)
      begin_cut(cut_k, shared);
    else
      after_top_k(shared);
  }

  GOSSAMER_HD void begin_cut(Step step, Shared& shared) const {
    shared.step = step;
    shared.bits = 0;
    shared.prefix = 0;
  }
  GOSSAMER_HD void after_top_k(Shared& shared) const {
    if (top_p < 1) return begin_cut(cut_p, shared);
    begin_draw(shared);
  }
  GOSSAMER_HD void begin_draw(Shared& shared) const {
    shared.step = draw;
    shared.begun = false;
    shared.begin = 0;
    shared.end = known;
  }
  // Of the keys that begin with the prefix, how many, or how much weight, have each next digit.
  GOSSAMER_HD void count_digits(const Row& row, int t, Shared& shared) const {
    for (int d = 0; d < digits; ++d) shared.bins[d][t] = 0;
    const int rest = 28 - shared.bits;
    const bool all = shared.bits == 0, weighs = shared.step == cut_p;
    for (i64 i = t; i < known; i += threads) {
      const float x = row[i];
      const std::uint32_t key = ordered(x), digit = key >> rest;
      if (key < shared.least || !(all || digit >> 4 == shared.prefix)) continue;
      shared.bins[digit % digits][t] += weighs ? weight(x, shared.top) : 1.0f;
    }
  }
  // The largest digit whose keys, with those above, are as many as wanted.
  GOSSAMER_HD void take_digit(Shared& shared) const {
    if (shared.step == cut_p && shared.bits == 0) {
      double all = 0;
      for (int d = digits; d-- > 0;) all += shared.totals[d];
      shared.left = top_p * all;
    }
    int taken = 0;
    for (int d = digits; d-- > 0;) {
      if (shared.totals[d] == 0) continue;
      taken = d;  // also if rounding leaves more wanted than there is
      if (shared.left <= shared.totals[d]) break;
      shared.left -= shared.totals[d];
    }
    shared.prefix = shared.prefix * digits + static_cast<std::uint32_t>(taken);
    shared.bits += 4;
    if (shared.bits < 32) return;
    if (shared.prefix > shared.least) shared.least = shared.prefix;
    if (shared.step == cut_k)
      after_top_k(shared);
    else
      begin_draw(shared);
  }

  GOSSAMER_HD static i64 piece(const Shared& shared) {
    return (shared.end - shared.begin + threads - 1) / threads;
  }
  GOSSAMER_HD void sum_piece(const Row& row, int t, Shared& shared) const {
    const i64 width = piece(shared), begin = shared.begin + t * width,
              end = begin + width < shared.end ? begin + width : shared.end;
    double sum = 0;
    for (i64 i = begin; i < end; ++i) {
      const float x = row[i];
      const float w = weight(x, shared.top);
      if (ordered(x) >= shared.least && w >= min_p) sum += static_cast<double>(w);
    }
    shared.sums[t] = sum;
  }
  GOSSAMER_HD void go_into_piece(i64 block, Shared& shared) const {
    if (!shared.begun) {
      double all = 0;
      for (int i = 0; i < threads; ++i) all += shared.sums[i];
      shared.left = uniform53(static_cast<std::uint64_t>(seeds[block]),
                              static_cast<std::uint32_t>(counts[block])) *
                    all;
      shared.begun = true;
    }
    int taken = 0;
    double left = shared.left;
    for (int i = 0; i < threads; ++i) {
      if (shared.sums[i] == 0) continue;
      taken = i;  // also if rounding leaves as much as all weights together
      shared.left = left;
      if (left < shared.sums[i]) break;
      left -= shared.sums[i];
    }
    const i64 width = piece(shared);
    shared.begin += taken * width;
    shared.end = shared.begin + width < shared.end ? shared.begin + width : shared.end;
    shared.id = shared.begin;
    if (width == 1) shared.step = done;
  }
};

void check_numbers(const char* what, const Tensor& t, DType type, i64 rows, const Tensor& logits) {
  check<ShapeError>(t.defined() && t.dtype() == type && t.shape() == Shape{rows}, kOp, ": ", what,
                    " must be ", type, " [", rows, "] for logits ", logits.shape());
  detail::check_device(kOp, logits, t);
}

}  // namespace

void choose_ids(const Tensor& logits, const Choice& choice, const Draws& draws, const Tensor& given,
                const Tensor& ids) {
  detail::check_floating(kOp, "logits", logits);
  check<ShapeError>(logits.rank() == 2 && choice.known >= 0 && choice.known <= logits.shape(1), kOp,
                    ": logits are ", logits.shape(), " of ", choice.known,
                    " ids; wanted [B, V] with at least as many columns");
  check<ShapeError>(choice.temperature >= 0 && std::isfinite(choice.temperature) &&
                        choice.top_k >= 0 && choice.top_p > 0 && choice.top_p <= 1,
                    kOp, ": temperature ", choice.temperature, ", top-k ", choice.top_k, ", top-p ",
                    choice.top_p, "; wanted a number from 0, 0 or more, above 0 up to 1");
  check<ShapeError>(choice.min_p >= 0 && choice.min_p <= 1 && choice.repetition_penalty > 0 &&
                        std::isfinite(choice.repetition_penalty),
                    kOp, ": min-p ", choice.min_p, ", repetition penalty ",
                    choice.repetition_penalty, "; wanted 0 up to 1, a number above 0");
  // So small a temperature leaves the largest logits only; infinity times 0 would leave none. So
  // large a one makes all equal; 0 would mean the largest.
  const float sharpness = choice.temperature > 0
                              ? static_cast<float>(std::clamp(1 / choice.temperature, 1e-30, 1e30))
                              : 0.0f;
  const i64 rows = logits.shape(0), columns = logits.shape(1);
  check_numbers("seeds", draws.seeds, DType::i64, rows, logits);
  check_numbers("counts", draws.counts, DType::i32, rows, logits);
  check_numbers("given", given, DType::i32, rows, logits);
  check_numbers("ids", ids, DType::i32, rows, logits);
  const bool penalises = choice.repetition_penalty != 1;
  if (penalises) {
    check<ShapeError>(draws.seen.defined() && draws.seen.dtype() == DType::u8 &&
                          draws.seen.shape() == logits.shape(),
                      kOp, ": seen must be u8 ", logits.shape(), " for a repetition penalty");
    detail::check_device(kOp, logits, draws.seen);
  }
  with_floating(logits.dtype(), kOp, [&]<class T>() {
    for_each_block(
        logits.device(), rows,
        ChooseId<T>{logits.as<T>(), columns, choice.known ? choice.known : columns, choice.top_k,
                    sharpness, choice.top_p, static_cast<float>(choice.min_p),
                    static_cast<float>(choice.repetition_penalty),
                    penalises ? draws.seen.as<std::uint8_t>() : nullptr, draws.seeds.as<i64>(),
                    draws.counts.as<std::int32_t>(), given.as<std::int32_t>(),
                    ids.as<std::int32_t>()});
  });
}

}  // namespace gossamer
