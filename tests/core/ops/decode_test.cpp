// Ops of decoding: caches that grow, attention of a few queries by pieces of the keys, and how ids
// are chosen.
#include "gossamer/core/ops/decode.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/kernel_helpers.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/grid.h"
#include "gossamer/core/random.h"
#include "support/error_of.h"
#include "support/use_backend.h"

namespace gossamer::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::vector<T> list(const Tensor& t) {
  return {t.as<T>(), t.as<T>() + t.numel()};
}
Tensor i32(const std::vector<std::int32_t>& values) {
  return Tensor::from(values, {static_cast<i64>(values.size())});
}

TEST(Append, PutsKeysAndValuesBehindThoseThatAreThere) {
  const Tensor qkv = normal({2, 3, 12}, 1);
  Tensor kv = Tensor::full({2, 5, 8}, 9);
  const Tensor q = append_keys_values(qkv, kv, 1);
  for (i64 b = 0; b < 2; ++b)
    for (i64 t = 0; t < 5; ++t)
      for (i64 c = 0; c < 8; ++c) {
        const bool new_one = t >= 1 && t < 4;
        EXPECT_EQ(kv.as<float>()[(b * 5 + t) * 8 + c],
                  new_one ? qkv.as<float>()[(b * 3 + t - 1) * 12 + 4 + c] : 9);
        if (c < 4 && t < 3)
          EXPECT_EQ(q.as<float>()[(b * 3 + t) * 4 + c], qkv.as<float>()[(b * 3 + t) * 12 + c]);
      }
}

TEST(Append, FindsThePositionOfEachTextOnTheDevice) {
  TextPositions positions(2, {});
  EXPECT_THAT(list<std::int32_t>(positions.seen()), ElementsAre(1, 1));
  positions.move_to(3);
  positions.advance();
  positions.at().as<std::int32_t>()[1] = 0;
  EXPECT_THAT(list<std::int32_t>(positions.at()), ElementsAre(4, 0));
  EXPECT_THAT(list<std::int32_t>(positions.seen()), ElementsAre(5, 5));
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor qkv = normal({2, 1, 6}, 1, type), kv = Tensor::zeros({2, 5, 4}, type);
    append_keys_values(qkv, kv, positions);
    const Tensor got = kv.to(DType::f32), from = qkv.to(DType::f32);
    for (i64 c = 0; c < 4; ++c) {
      EXPECT_EQ(got.as<float>()[4 * 4 + c], from.as<float>()[2 + c]);
      EXPECT_EQ(got.as<float>()[(5 + 0) * 4 + c], from.as<float>()[6 + 2 + c]);
    }
  }
}

TEST(Append, SaysThatACacheIsFull) {
  const Tensor qkv = normal({1, 2, 6}, 1), kv = Tensor::zeros({1, 5, 4});
  EXPECT_THAT(error_of([&] { append_keys_values(qkv, kv, 4); }), HasSubstr("cache of 5"));
  TextPositions positions(1, {});
  positions.move_to(4);
  EXPECT_THAT(error_of([&] { append_keys_values(qkv, kv, positions); }), HasSubstr("cache of 5"));
  EXPECT_THAT(error_of([&] {
                append_keys_values(qkv, Tensor::zeros({1, 5, 6}), 0);
              }),
              HasSubstr("[B, capacity, R]"));
}

TEST(TakeRows, GathersRowsOfAnyShape) {
  const Tensor x = normal({3, 2, 4}, 1), y = take_rows(x, i32({2, 0, 2, 1}));
  EXPECT_EQ(y.shape(), (Shape{4, 2, 4}));
  for (const auto& [to, from] : {std::pair<i64, i64>{0, 2}, {1, 0}, {2, 2}, {3, 1}})
    EXPECT_EQ(list<float>(y.slice(to, to + 1)), list<float>(x.slice(from, from + 1)));
}

// --- attention of a few queries

struct FewCase {
  i64 batch, queries, keys, heads, size;
  std::vector<std::int32_t> lengths{};
  bool causal = false;
  i64 first = 0;
};
std::string name_of_case(const FewCase& c) {
  return std::to_string(c.queries) + " of " + std::to_string(c.keys) + " keys, size " +
         std::to_string(c.size);
}
const std::vector<FewCase>& few_cases() {
  static const auto& all = *new std::vector<FewCase>{
      {2, 1, 64, 2, 64},
      {3, 1, 200, 2, 64, {200, 1, 65}},
      {2, 1, 130, 1, 8, {0, 130}},
      {1, 1, 70, 2, 3, {69}},
      {2, 4, 150, 2, 16, {128, 7}},
      {1, 8, 140, 1, 80, {}, true, 100},
      {1, 3, 66, 1, 250, {}, true, 63},
      {2, 2, 65, 1, 128},
  };
  return all;
}
Tensor attend(const FewCase& c, const Tensor& q, const Tensor& kv) {
  return attention(q, kv,
                   {.heads = static_cast<int>(c.heads), .causal = c.causal, .first = c.first},
                   c.lengths.empty() ? Tensor() : i32(c.lengths));
}

TEST(AttentionOfFew, AgreesWithTheReferenceOnEveryBackend) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const FewCase& c : few_cases()) {
      const i64 width = c.heads * c.size;
      const Tensor q = normal({c.batch, c.queries, width}, 1, type),
                   kv = normal({c.batch, c.keys, 2 * width}, 2, type);
      Tensor want;
      {
        const UseBackend use("reference");
        want = attend(c, q, kv);
      }
      for (const std::string& name : backend_names()) {
        const UseBackend use(name);
        expect_close(attend(c, q, kv), want, rounding(type), type == DType::f32 ? 3e-6 : 2e-3,
                     name + ": " + name_of_case(c));
      }
    }
}

TEST(AttentionOfFew, ReadsNoKeyAndValueThatIsNotSeen) {
  for (const std::string& name : backend_names())
    for (const FewCase& c : few_cases()) {
      const UseBackend use(name);
      const i64 width = c.heads * c.size;
      const Tensor q = normal({c.batch, c.queries, width}, 1),
                   kv = normal({c.batch, c.keys, 2 * width}, 2), other = kv.clone();
      for (i64 b = 0; b < c.batch; ++b) {
        i64 seen = c.causal ? c.first + c.queries : c.keys;
        if (!c.lengths.empty()) seen = c.lengths[static_cast<std::size_t>(b)];
        std::fill(other.as<float>() + (b * c.keys + seen) * 2 * width,
                  other.as<float>() + (b + 1) * c.keys * 2 * width,
                  std::numeric_limits<float>::quiet_NaN());
      }
      expect_same_bits(attend(c, q, other), attend(c, q, kv), name + ": " + name_of_case(c));
    }
}

// Blocks behind the length leave: what is found does not depend on the cache's room.
TEST(AttentionOfFew, HasTheSameBitsInACacheOfAnyCapacity) {
  const UseBackend use("cuda_emulated");
  const Tensor q = normal({1, 1, 32}, 1), kv = normal({1, 100, 64}, 2);
  Tensor room = Tensor::full({1, 1000, 64}, NAN);
  room.reshape({1000, 64}).slice(0, 100).copy_from(kv.reshape({100, 64}));
  expect_same_bits(attention(q, room, {.heads = 2}, i32({100})), attention(q, kv, {.heads = 2}),
                   "room");
}

// --- the likeliest ids

TEST(Likeliest, AreThoseOfASortWithTheirLogSoftmax) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const auto& [vocabulary, count] :
         {std::pair<i64, i64>{1, 1}, {5, 1}, {5, 5}, {300, 8}, {1000, 40}, {257, 257}}) {
      SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(vocabulary));
      const Tensor logits = normal({3, vocabulary}, 5, type, 0, 3), floats = logits.to(DType::f32);
      const Likeliest got = likeliest(logits, count);
      for (i64 r = 0; r < 3; ++r) {
        const float* row = floats.as<float>() + r * vocabulary;
        std::vector<std::int32_t> order(static_cast<std::size_t>(vocabulary));
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, std::greater<>(), [&](std::int32_t id) { return row[id]; });
        double sum = 0;
        for (i64 i = 0; i < vocabulary; ++i) sum += std::exp(static_cast<double>(row[i]));
        for (i64 k = 0; k < count; ++k) {
          const std::int32_t id = got.ids.as<std::int32_t>()[r * count + k];
          EXPECT_EQ(id, order[static_cast<std::size_t>(k)]) << k;
          EXPECT_NEAR(got.log_p.as<float>()[r * count + k],
                      static_cast<double>(row[id]) - std::log(sum), 2e-6);
        }
      }
    }
}

TEST(Likeliest, EqualLogitsComeInTheirOrderAndNanMakesNan) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor logits = Tensor::from(
      std::vector<float>{1, 2, 1, 2, 0, 1, NAN, 0, -inf, -inf, 3, -inf, -inf, -inf, -inf, -inf},
      {4, 4});
  const Likeliest got = likeliest(logits, 4);
  const auto ids = list<std::int32_t>(got.ids);
  EXPECT_EQ(std::vector<std::int32_t>(ids.begin(), ids.begin() + 4),
            (std::vector<std::int32_t>{1, 3, 0, 2}));
  EXPECT_EQ(std::vector<std::int32_t>(ids.begin() + 8, ids.begin() + 12),
            (std::vector<std::int32_t>{2, 0, 1, 3}));
  const float* log_p = got.log_p.as<float>();
  EXPECT_TRUE(std::isnan(log_p[4])) << "NaN in the row";
  EXPECT_EQ(log_p[8], 0);
  EXPECT_EQ(log_p[9], -inf);
  EXPECT_TRUE(std::isnan(log_p[12])) << "none is finite";
  EXPECT_THAT(error_of([&] { likeliest(logits, 5); }), HasSubstr("5 ids of logits"));
}

// --- how ids are chosen

struct Chosen {
  Tensor ids, counts;
};
// Ids that a text has already.
Tensor every_third(const Tensor& logits) {
  Tensor seen = Tensor::zeros(logits.shape(), DType::u8);
  for (i64 i = 0; i < seen.numel(); i += 3) seen.as<std::uint8_t>()[i] = 1;
  return seen;
}

Chosen choose(const Tensor& logits, const Choice& choice, const std::vector<i64>& seeds,
              std::int32_t count, std::vector<std::int32_t> given = {}) {
  const auto rows = static_cast<i64>(seeds.size());
  Tensor seed = Tensor::empty({rows}, DType::i64);
  std::ranges::copy(seeds, seed.as<i64>());
  given.resize(seeds.size(), -1);
  Chosen out{Tensor::empty({rows}, DType::i32),
             Tensor::full({rows}, static_cast<float>(count), DType::i32)};
  choose_ids(logits, choice,
             {seed, out.counts, choice.repetition_penalty == 1 ? Tensor() : every_third(logits)},
             i32(given), out.ids);
  return out;
}

// As the comments of choice.h say, with doubles and a sort.
i64 chosen_by_hand(const Tensor& logits, i64 b, const Choice& c, double u) {
  const i64 n = logits.shape(1);
  std::vector<float> penalised(logits.as<float>() + b * n, logits.as<float>() + (b + 1) * n);
  const auto penalty = static_cast<float>(c.repetition_penalty);
  for (i64 i = 0; i < n; ++i)
    if (float& x = penalised[static_cast<std::size_t>(i)]; (b * n + i) % 3 == 0)
      x = x > 0 ? x / penalty : x * penalty;
  const float* const row = penalised.data();
  const float top = *std::max_element(row, row + n);
  if (c.temperature == 0) return std::max_element(row, row + n) - row;
  const auto weight = [&](float x) {
    return std::exp((static_cast<double>(x) - static_cast<double>(top)) / c.temperature);
  };
  std::vector<float> sorted(row, row + n);
  std::ranges::sort(sorted, std::greater<>());
  float least = -INFINITY;
  if (c.top_k > 0 && c.top_k < n) least = sorted[static_cast<std::size_t>(c.top_k - 1)];
  const auto sum_from = [&](float bound) {
    double sum = 0;
    for (i64 i = 0; i < n; ++i) sum += row[i] >= bound ? weight(row[i]) : 0;
    return sum;
  };
  if (c.top_p < 1) {
    const double enough = c.top_p * sum_from(least);
    double sum = 0;
    std::size_t taken = 0;
    while (sum < enough) sum += weight(sorted[taken++]);
    least = std::max(least, sorted[taken - 1]);
  }
  const auto kept = [&](float x) { return x >= least && weight(x) >= c.min_p; };
  double left = 0;
  for (i64 i = 0; i < n; ++i) left += kept(row[i]) ? u * weight(row[i]) : 0;
  i64 last = -1;
  for (i64 i = 0; i < n; ++i) {
    if (!kept(row[i])) continue;
    last = i;
    if (left < weight(row[i])) return i;
    left -= weight(row[i]);
  }
  return last;
}

const std::vector<Choice>& choices() {
  static const auto& all = *new std::vector<Choice>{
      {},
      {.temperature = 0},
      {.temperature = 1e300},
      {.temperature = 0.7f},
      {.top_k = 1},
      {.top_k = 5},
      {.temperature = 1.5f, .top_k = 40},
      {.top_p = 0.3},
      {.top_p = 0.95},
      {.temperature = 0.8f, .top_k = 50, .top_p = 0.9},
      {.min_p = 0.1},
      {.temperature = 1.3, .top_k = 30, .top_p = 0.97, .min_p = 0.05},
      {.repetition_penalty = 1.7},
      {.temperature = 0, .repetition_penalty = 3},
      {.temperature = 0.9, .top_p = 0.8, .min_p = 0.02, .repetition_penalty = 0.8},
  };
  return all;
}

TEST(ChooseIds, AgreesWithTheFormulaInDouble) {
  for (const i64 vocabulary : {1, 7, 256, 257, 1000, 70000})
    for (std::size_t k = 0; k < choices().size(); ++k) {
      const Choice& c = choices()[k];
      SCOPED_TRACE(std::to_string(vocabulary) + " ids, choice " + std::to_string(k));
      const Tensor logits = normal({3, vocabulary}, 7 + k, DType::f32, 0, 2);
      for (const std::int32_t count : {0, 1, 6}) {
        const std::vector<i64> seeds{0, 5, i64{1} << 40};
        const Chosen got = choose(logits, c, seeds, count);
        for (i64 b = 0; b < 3; ++b) {
          Rng rng(static_cast<std::uint64_t>(seeds[static_cast<std::size_t>(b)]));
          double u = 0;
          for (int i = 0; i <= count; ++i) u = rng.uniform53();
          EXPECT_EQ(got.ids.as<std::int32_t>()[b], chosen_by_hand(logits, b, c, u));
          EXPECT_EQ(got.counts.as<std::int32_t>()[b], count + 1);
        }
      }
    }
}

TEST(ChooseIds, TakesTheLogitsOfEveryTypeAsTheyAre) {
  for (const DType type : {DType::bf16, DType::f16}) {
    const Tensor logits = normal({2, 300}, 3, type);  // some are equal
    for (const Choice& c : choices())
      EXPECT_EQ(list<std::int32_t>(choose(logits, c, {1, 2}, 0).ids),
                list<std::int32_t>(choose(logits.to(DType::f32), c, {1, 2}, 0).ids));
  }
}

TEST(ChooseIds, WhatItChoosesOrIsGivenIsSeen) {
  const Tensor logits = normal({2, 9}, 1, DType::f32, -9, 1), ids = i32({0, 0});
  Draws draws{Tensor::zeros({2}, DType::i64), i32({0, 0}), Tensor::zeros({2, 9}, DType::u8)};
  const Choice greedy{.temperature = 0, .repetition_penalty = 1e6};
  // All logits are negative, and a penalty so large puts what has come behind all others.
  std::set<std::int32_t> first, second;
  for (int step = 0; step < 4; ++step) {
    choose_ids(logits, greedy, draws, i32({-1, step == 0 ? 8 : -1}), ids);
    EXPECT_TRUE(first.insert(ids.as<std::int32_t>()[0]).second);
    EXPECT_TRUE(second.insert(ids.as<std::int32_t>()[1]).second);
  }
  EXPECT_TRUE(second.contains(8));
  for (i64 id = 0; id < 9; ++id)
    EXPECT_EQ(draws.seen.as<std::uint8_t>()[9 + id], second.contains(static_cast<int>(id)));
}

TEST(ChooseIds, OnlyKnownIdsComeAndGivenOnesInTheirPlace) {
  Tensor logits = normal({2, 20}, 1);
  for (i64 b = 0; b < 2; ++b) std::fill_n(logits.as<float>() + b * 20 + 10, 10, 50.0f);
  for (int count = 0; count < 40; ++count) {
    const Chosen got = choose(logits, {.known = 10}, {3, 4}, count, {-1, 15});
    EXPECT_LT(got.ids.as<std::int32_t>()[0], 10);
    EXPECT_EQ(got.ids.as<std::int32_t>()[1], 15);
    EXPECT_THAT(list<std::int32_t>(got.counts), ElementsAre(count + 1, count));
  }
}

TEST(ChooseIds, OfEqualLogitsTheLowestIsTheLikeliestAndNanIsNoId) {
  Tensor logits = Tensor::full({4, 300}, 1);
  logits.as<float>()[300 + 299] = NAN;
  std::fill_n(logits.as<float>() + 600, 300, -INFINITY);
  std::fill_n(logits.as<float>() + 900, 299, -INFINITY);
  for (const float temperature : {0.0f, 1.0f}) {
    const auto ids =
        list<std::int32_t>(choose(logits, {.temperature = temperature}, {1, 1, 1, 1}, 0).ids);
    if (temperature == 0) EXPECT_EQ(ids[0], 0);
    EXPECT_EQ(ids[1], -1);
    EXPECT_EQ(ids[2], -1);
    EXPECT_EQ(ids[3], 299);
  }
}

TEST(ChooseIds, SaysWhatIsWrongWithItsTensors) {
  const Tensor logits = normal({2, 5}, 1), two = i32({-1, -1}), ids = i32({0, 0});
  const Draws draws{Tensor::zeros({2}, DType::i64), i32({0, 0})};
  EXPECT_THAT(error_of([&] { choose_ids(logits, {.known = 6}, draws, two, ids); }),
              HasSubstr("6 ids"));
  EXPECT_THAT(error_of([&] { choose_ids(logits, {.top_p = 0}, draws, two, ids); }),
              HasSubstr("top-p 0"));
  EXPECT_THAT(error_of([&] { choose_ids(logits, {.min_p = 2}, draws, two, ids); }),
              HasSubstr("min-p 2"));
  EXPECT_THAT(error_of([&] { choose_ids(logits, {.repetition_penalty = 0}, draws, two, ids); }),
              HasSubstr("repetition penalty 0"));
  EXPECT_THAT(error_of([&] { choose_ids(logits, {.repetition_penalty = 2}, draws, two, ids); }),
              HasSubstr("seen must be u8"));
  EXPECT_THAT(error_of([&] { choose_ids(logits, {}, draws, i32({1}), ids); }),
              HasSubstr("given must be"));
}

}  // namespace
}  // namespace gossamer::testing
