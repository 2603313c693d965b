// Translation with all that changes on the device: the ids of a search by hand, alone and together,
// by eager steps and by graphs.
#include "gossamer/models/translator.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/random.h"
#include "support/error_of.h"
#include "support/repeated_work.h"
#include "support/use_backend.h"

namespace gossamer::models {
namespace {

using testing::HasSubstr;
using Ids = Translator::Ids;

constexpr std::int32_t kBegin = 1, kEnd = 2;

struct Net {
  Transformer net{{.layers = 2,
                   .width = 16,
                   .ff = 32,
                   .heads = 2,
                   .vocabulary = 40,
                   .positions = 30,
                   .norm_first = true}};
  Net() {
    // so that one id follows the other by more than the last digits
    for (NamedTensor& p : net.parameters())
      if (p.tensor.rank() == 2)
        for (float& v : p.tensor.span<float>()) v *= 3;
    net.eval();
  }
};

std::vector<Ids> drawn_sources(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Ids> out(count);
  for (Ids& ids : out) {
    for (std::uint32_t left = 1 + rng.below(17); left > 0; --left)
      ids.push_back(static_cast<std::int32_t>(3 + rng.below(37)));
    ids.push_back(kEnd);
  }
  return out;
}

std::vector<i64> limits_of(const std::vector<Ids>& sources) {
  std::vector<i64> out;
  for (const Ids& s : sources) out.push_back(std::min<i64>(static_cast<i64>(s.size()) + 8, 30));
  return out;
}

// Without a cache: each hypothesis is decoded from its beginning.
BeamSearch::Hypothesis by_hand(Transformer& net, const BeamOptions& options, const Ids& source,
                               i64 limit) {
  const NoGrad no_grad;
  BeamSearch search(options, {limit});
  std::vector<Ids> texts{{}};
  const Tensor memory = net.encode(Tensor::from(source, {1, static_cast<i64>(source.size())}), {});
  while (!search.rows().empty()) {
    std::vector<Ids> now;
    Ids ids;
    std::vector<float> log_p;
    for (const BeamSearch::Row& row : search.rows()) {
      Ids text = texts[static_cast<std::size_t>(row.parent)];
      text.push_back(row.id);
      const i64 length = static_cast<i64>(text.size());
      const Tensor all = net.logits(net.decode(memory, {}, Tensor::from(text, {1, length})));
      const Likeliest next = likeliest(all.reshape({length, -1}).slice(length - 1, length),
                                       search.candidates(net.options().vocabulary));
      std::ranges::copy(next.ids.span<std::int32_t>(), std::back_inserter(ids));
      std::ranges::copy(next.log_p.span<float>(), std::back_inserter(log_p));
      now.push_back(std::move(text));
    }
    texts = std::move(now);
    search.advance(ids, log_p);
  }
  return std::move(search).results()[0][0];
}

std::vector<Ids> ids_of(const std::vector<BeamSearch::Hypothesis>& found) {
  std::vector<Ids> out;
  for (const BeamSearch::Hypothesis& h : found) out.push_back(h.ids);
  return out;
}

const BeamOptions kGreedy{.beam = 1, .begin = kBegin, .end = kEnd},
    kBeams{.beam = 3, .begin = kBegin, .end = kEnd};

// graph: with memory that stays where it is and rounded sizes; eager: the same, where nothing can
// be captured.
TEST(Translator, MakesTheSearchByHandEagerlyAndByGraphsOnEveryBackend) {
  const std::vector<Ids> sources = drawn_sources(5, 1);
  const std::vector<i64> limits = limits_of(sources);
  for (const std::string& name : backend_names())
    for (const BeamOptions& options : {kGreedy, kBeams}) {
      SCOPED_TRACE(name + ", beam " + std::to_string(options.beam));
      Net m;
      std::vector<Ids> want;
      for (std::size_t i = 0; i < sources.size(); ++i)
        want.push_back(by_hand(m.net, options, sources[i], limits[i]).ids);
      const UseBackend use(name);
      RepeatedWork graphs;
      Translator plain(m.net, options), fixed(m.net, options, {.capture = graphs.capture()});
      EXPECT_EQ(ids_of(plain.translate(sources, limits)), want);
      EXPECT_EQ(ids_of(fixed.translate(sources, limits)), want);
      EXPECT_GT(graphs.launched, 0);
      EXPECT_EQ(plain.graphs(), 0u);
    }
}

// Batches of other sizes and lengths, so that memory grows, shapes take turns and graphs leave.
TEST(Translator, GraphsMakeTheBitsOfEagerStepsForSentencesOfAllLengths) {
  for (const std::string& name : backend_names())
    for (const BeamOptions& options : {kGreedy, kBeams}) {
      SCOPED_TRACE(name + ", beam " + std::to_string(options.beam));
      const UseBackend use(name);
      Net m;
      RepeatedWork graphs, none;
      none.fails = "nothing is captured";
      Translator graph(m.net, options, {.capture = graphs.capture()}),
          eager(m.net, options, {none.capture(), [](const std::string&) {}});
      std::uint64_t seed = 0;
      for (const std::size_t count : {1, 4, 9, 3, 9, 5, 16}) {
        const std::vector<Ids> sources = drawn_sources(count, ++seed);
        const std::vector<i64> limits = limits_of(sources);
        const auto got = graph.translate(sources, limits), want = eager.translate(sources, limits);
        for (std::size_t i = 0; i < count; ++i) {
          EXPECT_EQ(got[i].ids, want[i].ids) << count << ", sentence " << i;
          EXPECT_EQ(got[i].score, want[i].score) << count << ", sentence " << i;
        }
      }
      EXPECT_GT(graphs.captured, 1);
      EXPECT_GT(graphs.launched, 20);
      EXPECT_EQ(none.captured, 0);
      EXPECT_LE(graph.graphs(), CapturedStep::kMostGraphs);
    }
}

TEST(Translator, ASentenceDoesNotSeeTheOthersNorThoseBefore) {
  Net m;
  RepeatedWork graphs;
  const std::vector<Ids> sources = drawn_sources(6, 5);
  const std::vector<i64> limits = limits_of(sources);
  Translator together(m.net, kBeams), fixed(m.net, kBeams, {.capture = graphs.capture()});
  const auto all = together.translate(sources, limits);
  for (int round = 0; round < 3; ++round)
    EXPECT_EQ(ids_of(fixed.translate(sources, limits)), ids_of(all));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Translator alone(m.net, kBeams);
    EXPECT_EQ(ids_of(alone.translate({sources[i]}, {limits[i]}))[0], all[i].ids);
    EXPECT_EQ(ids_of(fixed.translate({sources[i]}, {limits[i]}))[0], all[i].ids);
  }
  EXPECT_TRUE(together.translate({}, {}).empty());
}

// The log p of a translation as the loss has it.
double log_p_by_loss(Transformer& net, const Ids& source, const Ids& ids) {
  const NoGrad no_grad;
  Ids inputs{kBegin};
  inputs.insert(inputs.end(), ids.begin(), ids.end() - 1);
  const auto length = static_cast<i64>(ids.size());
  const Tensor loss = net.loss(Tensor::from(source, {1, static_cast<i64>(source.size())}), {},
                               Tensor::from(inputs, {1, length}), Tensor::from(ids, {1, length}));
  return -static_cast<double>(loss.item()) * static_cast<double>(length);
}

void expect_scores_of_the_loss(Transformer& net, const BeamOptions& o, const Ids& source,
                               const Translator::Hypotheses& found) {
  for (const BeamSearch::Hypothesis& h : found) {
    const double log_p = log_p_by_loss(net, source, h.ids),
                 norm = std::pow((5 + static_cast<double>(h.ids.size())) / 6, o.length_penalty);
    EXPECT_NEAR(h.score, log_p / norm, 2e-5 * std::abs(log_p)) << h.ids.size();
  }
}

TEST(Translator, TheBestOnesAreInOrderAndTheirScoresAreWhatTheLossSays) {
  Net m;
  const std::vector<Ids> sources = drawn_sources(4, 11);
  const std::vector<i64> limits = limits_of(sources);
  for (const double penalty : {0.0, 0.6, 1.5}) {
    const BeamOptions options{.beam = 5, .length_penalty = penalty, .begin = kBegin, .end = kEnd};
    Translator translator(m.net, options);
    const auto found = translator.search(sources, limits);
    const auto best = translator.translate(sources, limits);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      EXPECT_EQ(found[i].front().ids, best[i].ids);
      EXPECT_GE(found[i].size(), 5u);
      EXPECT_TRUE(
          std::ranges::is_sorted(found[i], std::greater<>(), &BeamSearch::Hypothesis::score));
      expect_scores_of_the_loss(m.net, options, sources[i], found[i]);
      std::vector<Ids> all = ids_of(found[i]);
      std::ranges::sort(all);
      EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "each is another one";
    }
  }
}

TEST(Translator, SamplesAreThoseOfTheirSeedsAloneAndTogether) {
  Net m;
  const std::vector<Ids> sources = drawn_sources(4, 13);
  const std::vector<i64> limits = limits_of(sources);
  Translator translator(m.net, kBeams);
  const Choice choice{.temperature = 1.3, .top_k = 20, .top_p = 0.95};
  const std::vector<std::uint64_t> seeds{7, 8, 9};
  const auto all = translator.sample(sources, limits, choice, seeds);
  ASSERT_EQ(all.size(), sources.size());
  std::size_t others = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    ASSERT_EQ(all[i].size(), 3u);
    for (std::size_t k = 0; k < 3; ++k) {
      const auto alone =
          translator.sample({sources[i]}, {limits[i]}, choice, std::span(seeds).subspan(k, 1));
      EXPECT_EQ(alone[0][0].ids, all[i][k].ids) << i << ", seed " << seeds[k];
      EXPECT_LE(static_cast<i64>(all[i][k].ids.size()), limits[i]);
      others += all[i][k].ids != all[i][0].ids;
    }
    expect_scores_of_the_loss(m.net, kBeams, sources[i], all[i]);
  }
  EXPECT_GT(others, 4u) << "seeds draw other ids";
  // At temperature 0 it is the greedy search.
  Translator greedy(m.net, kGreedy);
  const auto likeliest =
      greedy.sample(sources, limits, {.temperature = 0}, std::span(seeds).first(1));
  const auto wanted = greedy.translate(sources, limits);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(likeliest[i][0].ids, wanted[i].ids);
    EXPECT_NEAR(likeliest[i][0].score, wanted[i].score, 1e-4);
  }
  EXPECT_TRUE(translator.sample({}, {}, choice, seeds).empty());
}

TEST(Translator, GraphsMakeTheSameIdsIn16Bits) {
  const UseBackend use("cuda_emulated");
  Net m;
  FlatParams params(m.net.parameters(), m.net.buffers(), {.compute = DType::bf16});
  RepeatedWork graphs, none;
  none.fails = "nothing is captured";
  Translator graph(m.net, kBeams, {.capture = graphs.capture()}),
      eager(m.net, kBeams, {none.capture(), [](const std::string&) {}});
  const std::vector<Ids> sources = drawn_sources(4, 9);
  const std::vector<i64> limits = limits_of(sources);
  EXPECT_EQ(ids_of(graph.translate(sources, limits)), ids_of(eager.translate(sources, limits)));
  EXPECT_GT(graphs.launched, 0);
}

TEST(Translator, ACaptureThatFailsIsAnErrorOrTold) {
  Net m;
  const std::vector<Ids> sources = drawn_sources(3, 2);
  const std::vector<i64> limits = limits_of(sources);
  RepeatedWork none;
  none.fails = "the step waits";
  Translator silent(m.net, kBeams, {.capture = none.capture()});
  EXPECT_THAT(error_of<DeviceError>([&] { silent.translate(sources, limits); }),
              HasSubstr("the step waits"));
  std::vector<std::string> told;
  Translator told_of(m.net, kBeams,
                     {none.capture(), [&](const std::string&why) { told.push_back(why); }}),
      plain(m.net, kBeams);
  EXPECT_EQ(ids_of(told_of.translate(sources, limits)), ids_of(plain.translate(sources, limits)));
  EXPECT_EQ(told, std::vector<std::string>{"the step waits"});
}

TEST(Translator, SaysWhichSentenceHasNoFiniteLogits) {
  Net m;
  m.net.parameters().front().tensor.as<float>()[7 * 16] = NAN;
  Translator t(m.net, kGreedy);
  EXPECT_THAT(error_of([&] {
                t.translate({{7, kEnd}}, {5});
              }),
              HasSubstr("the logits of sentence 0 are not finite"));
}

}  // namespace
}  // namespace gossamer::models
