// Choosing ids: sampling by formula and by frequency; beam search against all sequences there are.
#include "gossamer/models/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/core/ops/decode.h"
#include "gossamer/core/random.h"
#include "gossamer/models/beam_search.h"

namespace gossamer::models {
namespace {

std::vector<double> frequencies(const std::vector<float>& logits, const Choice& o) {
  constexpr int kDraws = 20000;
  std::vector<double> out(logits.size());
  for (int i = 0; i < kDraws; ++i)  // evenly spaced, so that no chance is left
    out[static_cast<std::size_t>(sample(logits, o, (i + 0.5) / kDraws))] += 1.0 / kDraws;
  return out;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 2e-4) << i;
}

// Probabilities 0.1, 0.4, 0.2, 0.3.
const std::vector<float> kLogits{std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};

TEST(Sampling, FollowsTheProbabilities) { expect_near(frequencies(kLogits, {}), {.1, .4, .2, .3}); }

TEST(Sampling, TemperatureSharpensAndFlattens) {
  std::vector<double> squares{.01, .16, .04, .09};
  for (double& v : squares) v /= 0.3;
  expect_near(frequencies(kLogits, {.temperature = 0.5}), squares);
  expect_near(frequencies(kLogits, {.temperature = 0}), {0, 1, 0, 0});
  expect_near(frequencies(kLogits, {.temperature = 1e9}), {.25, .25, .25, .25});
}

TEST(Sampling, TopKKeepsTheLargest) {
  expect_near(frequencies(kLogits, {.top_k = 2}), {0, 4. / 7, 0, 3. / 7});
  expect_near(frequencies(kLogits, {.top_k = 1}), {0, 1, 0, 0});
  expect_near(frequencies(kLogits, {.top_k = 9}), {.1, .4, .2, .3});
}

TEST(Sampling, TopPKeepsTheFewestThatSuffice) {
  expect_near(frequencies(kLogits, {.top_p = 0.65}), {0, 4. / 7, 0, 3. / 7});
  expect_near(frequencies(kLogits, {.top_p = 0.3}), {0, 1, 0, 0});
  // of what top-k leaves: 4/7 of two
  expect_near(frequencies(kLogits, {.top_k = 2, .top_p = 0.5}), {0, 1, 0, 0});
}

TEST(Sampling, MinPKeepsWhatIsNotMuchLessLikelyThanTheFirst) {
  expect_near(frequencies(kLogits, {.min_p = 0.45}), {0, 4. / 9, 2. / 9, 3. / 9});
  expect_near(frequencies(kLogits, {.min_p = 0.7}), {0, 4. / 7, 0, 3. / 7});
  expect_near(frequencies(kLogits, {.min_p = 1}), {0, 1, 0, 0});
  // the probabilities are those of the temperature: .01, .16, .04 and .09 of .3
  expect_near(frequencies(kLogits, {.temperature = 0.5, .min_p = 0.45}), {0, .64, 0, .36});
}

TEST(Sampling, ThePenaltyIsHuggingFaces) {
  // divided where positive, multiplied where not; each id once
  const std::vector<float> logits{2, -1, 1.5f, -2};
  const std::vector<std::int32_t> seen{0, 3, 0};
  const std::vector<float> penalised{1, -1, 1.5f, -4};
  for (const double u : {0.1, 0.35, 0.5, 0.9, 0.95, 0.999})
    EXPECT_EQ(sample(logits, {.repetition_penalty = 2}, u, seen), sample(penalised, {}, u)) << u;
  EXPECT_EQ(sample(logits, {.temperature = 0, .repetition_penalty = 2}, 0, seen), 2);
}

TEST(Sampling, ForbiddenIdsNeverCome) {
  const float none = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits{none, 1, none, 1, none};
  expect_near(frequencies(logits, {}), {0, .5, 0, .5, 0});
  EXPECT_EQ(sample(logits, {}, std::nextafter(1.0, 0.0)), 3);
}

TEST(Sampling, IdsThatAreNotKnownNeverCome) {
  expect_near(frequencies({1, 1, 9, 9}, {.known = 2}), {.5, .5, 0, 0});
  EXPECT_EQ(sample(kLogits, {.temperature = 0, .known = 1}, 0), 0);
}

TEST(Sampling, RefusesWhatMakesNoSense) {
  EXPECT_THROW(sample(kLogits, {.known = -1}, 0), ConfigError);
  EXPECT_THROW(sample(kLogits, {.temperature = -1}, 0), ConfigError);
  EXPECT_THROW(sample(kLogits, {.top_k = -1}, 0), ConfigError);
  EXPECT_THROW(sample(kLogits, {.top_p = 0}, 0), ConfigError);
  EXPECT_THROW(sample(kLogits, {.min_p = 1.5}, 0), ConfigError);
  EXPECT_THROW(sample(kLogits, {.repetition_penalty = 0}, 0), ConfigError);
  EXPECT_THROW(sample(std::vector<float>{1, NAN}, {}, 0), Error);
}

// --- beam search over a model that is a table: the logits depend on the sentence and the ids so
// far, drawn from a hash of them.

constexpr i64 kVocabulary = 5;
constexpr std::int32_t kBegin = 3, kEnd = 4;

std::vector<float> logits_of(i64 sentence, const std::vector<std::int32_t>& ids) {
  std::uint64_t hash = static_cast<std::uint64_t>(sentence) + 17;
  for (const std::int32_t id : ids) hash = hash * 31 + static_cast<std::uint64_t>(id) + 1;
  Rng rng(hash);
  std::vector<float> out;
  for (i64 i = 0; i < kVocabulary; ++i) out.push_back(2 * rng.normal());
  return out;
}

std::vector<double> log_softmax_of(const std::vector<float>& logits) {
  double sum = 0;
  for (const float v : logits) sum += std::exp(double(v));
  std::vector<double> out;
  for (const float v : logits) out.push_back(double(v) - std::log(sum));
  return out;
}

void advance(BeamSearch& beams, const std::vector<float>& logits) {
  const auto rows = static_cast<i64>(beams.rows().size());
  const Tensor all = Tensor::from(logits, {rows, static_cast<i64>(logits.size()) / rows});
  const Likeliest next = likeliest(all, beams.candidates(all.shape(1)));
  beams.advance(next.ids.span<std::int32_t>(), next.log_p.span<float>());
}

std::vector<BeamSearch::Hypothesis> search(const BeamOptions& options, std::vector<i64> limits) {
  BeamSearch beams(options, std::move(limits));
  std::vector<std::vector<std::int32_t>> prefixes;  // of the rows: stands for a model's cache
  bool first = true;
  while (!beams.rows().empty()) {
    std::vector<std::vector<std::int32_t>> next;
    std::vector<float> logits;
    for (const BeamSearch::Row& row : beams.rows()) {
      next.push_back(first ? std::vector<std::int32_t>{}
                           : prefixes[static_cast<std::size_t>(row.parent)]);
      next.back().push_back(row.id);
      const auto own = logits_of(row.sentence, next.back());
      logits.insert(logits.end(), own.begin(), own.end());
    }
    prefixes = std::move(next);
    first = false;
    advance(beams, logits);
  }
  std::vector<BeamSearch::Hypothesis> best;
  for (auto& found : std::move(beams).results()) {
    EXPECT_TRUE(std::ranges::is_sorted(found, std::greater<>(), &BeamSearch::Hypothesis::score));
    best.push_back(std::move(found.front()));
  }
  return best;
}

// The best of all sequences: those that end within the limit, and those of its length.
void best_of_all(i64 sentence, const BeamOptions& o, i64 limit, std::vector<std::int32_t>& ids,
                 double log_p, BeamSearch::Hypothesis& best) {
  const auto n = static_cast<double>(ids.size()) - 1;
  if (n > 0 && (ids.back() == kEnd || static_cast<i64>(n) == limit)) {
    const double score = log_p / std::pow((5 + n) / 6, o.length_penalty);
    if (best.ids.empty() || score > best.score) best = {{ids.begin() + 1, ids.end()}, score};
    return;
  }
  const auto log_probabilities = log_softmax_of(logits_of(sentence, ids));
  for (std::int32_t id = 0; id < kVocabulary; ++id) {
    ids.push_back(id);
    best_of_all(sentence, o, limit, ids, log_p + log_probabilities[static_cast<std::size_t>(id)],
                best);
    ids.pop_back();
  }
}

TEST(BeamSearch, WideEnoughItFindsTheBestOfAllSequences) {
  // as many beams as there are sequences of the limit, so none is dropped
  const BeamOptions options{.beam = 700, .length_penalty = 0.6, .begin = kBegin, .end = kEnd};
  const auto found = search(options, {4, 4, 3});
  for (i64 s = 0; s < 3; ++s) {
    BeamSearch::Hypothesis best;
    std::vector<std::int32_t> ids{kBegin};
    best_of_all(s, options, s == 2 ? 3 : 4, ids, 0, best);
    EXPECT_EQ(found[static_cast<std::size_t>(s)].ids, best.ids) << s;
    EXPECT_NEAR(found[static_cast<std::size_t>(s)].score, best.score, 1e-6);
  }
}

TEST(BeamSearch, OneBeamIsGreedy) {
  const auto found = search({.beam = 1, .begin = kBegin, .end = kEnd}, {6, 6, 6, 6});
  for (i64 s = 0; s < 4; ++s) {
    std::vector<std::int32_t> ids{kBegin};
    while (ids.size() <= 6 && (ids.size() == 1 || ids.back() != kEnd))
      ids.push_back(static_cast<std::int32_t>(largest(logits_of(s, ids))));
    EXPECT_EQ(found[static_cast<std::size_t>(s)].ids,
              std::vector<std::int32_t>(ids.begin() + 1, ids.end()));
  }
}

TEST(BeamSearch, BeginsWithOneBeamSoThatBeamsDiffer) {
  BeamSearch beams({.beam = 3, .begin = kBegin, .end = kEnd}, {5, 5});
  ASSERT_EQ(beams.rows().size(), 2u);
  std::vector<float> logits;
  for (const BeamSearch::Row& row : beams.rows()) {
    EXPECT_EQ(row.id, kBegin);
    logits.insert(logits.end(), {3, 2, 1, 0, -9});
  }
  advance(beams, logits);
  ASSERT_EQ(beams.rows().size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(beams.rows()[i].id, static_cast<std::int32_t>(i % 3));
    EXPECT_EQ(beams.rows()[i].parent, static_cast<i64>(i / 3));
  }
}

// A sentence that is done leaves the batch; the others' results do not depend on it.
TEST(BeamSearch, SentencesDoNotDependOnEachOther) {
  const BeamOptions options{.beam = 2, .begin = kBegin, .end = kEnd};
  const auto together = search(options, {1, 9, 4});
  ASSERT_EQ(together.size(), 3u);
  EXPECT_EQ(together[0].ids.size(), 1u);
  BeamSearch alone(options, {9});
  EXPECT_EQ(search(options, {9})[0].ids, search(options, {9, 2})[0].ids);
}

TEST(BeamSearch, RefusesWhatMakesNoSense) {
  EXPECT_THROW(BeamSearch({.beam = 0}, {3}), ConfigError);
  EXPECT_THROW(BeamSearch({.beam = 2}, {0}), ConfigError);
  BeamSearch beams({.beam = 2}, {3});
  EXPECT_THROW(advance(beams, {1, NAN}), Error);
}

}  // namespace
}  // namespace gossamer::models
