// Decoding with all that changes on the device: the ids of a loop by hand, alone and together, by
// eager steps and by a graph.
#include "gossamer/models/decoder.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/random.h"
#include "gossamer/models/gpt2.h"
#include "gossamer/models/sampling.h"
#include "support/error_of.h"
#include "support/repeated_work.h"
#include "support/use_backend.h"

namespace gossamer::models {
namespace {

using testing::HasSubstr;
using Ids = Decoder::Ids;

struct Net {
  Gpt2 net{{.layers = 2, .width = 16, .heads = 2, .positions = 24, .vocabulary = 40}};
  Net() {
    // so that one id follows the other by more than the last digits
    for (NamedTensor& p : net.parameters())
      if (p.tensor.rank() == 2)
        for (float& v : p.tensor.span<float>()) v *= 12;
    net.eval();
  }
};

const Choice kDrawn{.temperature = 0.9f, .top_k = 12, .top_p = 0.9, .known = 37};

const Choice kPenalised{.temperature = 0.9f, .min_p = 0.02, .repetition_penalty = 1.8};

Ids none(i64 texts) { return Ids(static_cast<std::size_t>(texts), -1); }

// The ids behind each of the prompts, which have one length.
std::vector<Ids> decoded(Decoder& d, const std::vector<Ids>& prompts, const Choice& choice,
                         int count) {
  std::vector<std::uint64_t> seeds;
  Ids all;
  for (const Ids& p : prompts) {
    seeds.push_back(static_cast<std::uint64_t>(p[0]));
    all.insert(all.end(), p.begin(), p.end());
  }
  d.begin(choice, seeds);
  d.read(all, none(d.texts()));
  std::vector<Ids> out(prompts.size());
  for (int made = 1; made <= count; ++made) {
    if (made < count) d.step(none(d.texts()));  // before the ids of the last one are looked at
    const Ids ids = d.ids();
    for (std::size_t i = 0; i < out.size(); ++i) out[i].push_back(ids[i]);
  }
  return out;
}

Ids by_hand(Gpt2& net, const Ids& prompt, const Choice& c, int count) {
  Rng rng(static_cast<std::uint64_t>(prompt[0]));
  Gpt2::Cache cache = net.cache(1);
  Ids next = prompt, out, seen = prompt;
  while (static_cast<int>(out.size()) < count) {
    const Tensor logits =
        net.step(Tensor::from(next, {1, static_cast<i64>(next.size())}), cache).to(DType::f32);
    out.push_back(static_cast<std::int32_t>(
        sample(logits.span<float>().first(40), c, rng.uniform53(), seen)));
    next = {out.back()};
    seen.push_back(out.back());
  }
  return out;
}

const std::vector<Ids> kPrompts{{3, 1, 4}, {15, 9, 2}, {6, 5, 35}};

TEST(Decoder, MakesTheIdsOfALoopByHandOnEveryBackend) {
  Net m;
  for (const std::string& name : backend_names())
    for (const Choice& choice : {Choice{.temperature = 0}, Choice{}, kDrawn, kPenalised}) {
      SCOPED_TRACE(name);
      const UseBackend use(name);
      Decoder d(m.net, 3);
      const std::vector<Ids> got = decoded(d, kPrompts, choice, 20);
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(got[i], by_hand(m.net, kPrompts[i], choice, 20)) << "text " << i;
    }
}

TEST(Decoder, AGraphMakesTheIdsOfEagerSteps) {
  for (const std::string& name : backend_names()) {
    SCOPED_TRACE(name);
    const UseBackend use(name);
    Net m;
    RepeatedWork graphs;
    Decoder eager(m.net, 3), graph(m.net, 3, {graphs.capture()});
    for (int round = 0; round < 2; ++round)  // the graph serves the next texts, too
      EXPECT_EQ(decoded(graph, kPrompts, kDrawn, 20), decoded(eager, kPrompts, kDrawn, 20));
    EXPECT_EQ(graphs.captured, 1);
    EXPECT_EQ(graphs.launched, 2 * 19 - CapturedStep::kEagerSteps);
    EXPECT_EQ(decoded(graph, kPrompts, {}, 20), decoded(eager, kPrompts, {}, 20));
    EXPECT_EQ(graphs.captured, 2) << "of another choice";
    for (int round = 0; round < 2; ++round)
      EXPECT_EQ(decoded(graph, kPrompts, kPenalised, 20), decoded(eager, kPrompts, kPenalised, 20));
    EXPECT_EQ(graphs.captured, 3);
  }
}

TEST(Decoder, AGraphMakesTheSameIdsIn16Bits) {
  const UseBackend use("cuda_emulated");
  Net m;
  FlatParams params(m.net.parameters(), m.net.buffers(), {.compute = DType::bf16});
  RepeatedWork graphs;
  Decoder eager(m.net, 3), graph(m.net, 3, {graphs.capture()});
  EXPECT_EQ(decoded(graph, kPrompts, kDrawn, 20), decoded(eager, kPrompts, kDrawn, 20));
  EXPECT_EQ(graphs.captured, 1);
}

TEST(Decoder, GoesOnWithoutAGraphAndSaysWhy) {
  Net m;
  RepeatedWork graphs;
  graphs.fails = "a step waits for the device";
  std::vector<std::string> told;
  const GraphOptions options{graphs.capture(),
                             [&](const std::string& why) { told.push_back(why); }};
  Decoder eager(m.net, 3), graph(m.net, 3, options);
  EXPECT_EQ(decoded(graph, kPrompts, kDrawn, 20), decoded(eager, kPrompts, kDrawn, 20));
  EXPECT_EQ(decoded(graph, kPrompts, {}, 20), decoded(eager, kPrompts, {}, 20));
  EXPECT_EQ(told, std::vector<std::string>{graphs.fails}) << "once, though the choice changed";
  EXPECT_EQ(graphs.launched, 0);
  Decoder silent(m.net, 3, {graphs.capture()});
  EXPECT_THAT(error_of<DeviceError>([&] { decoded(silent, kPrompts, kDrawn, 20); }),
              HasSubstr(graphs.fails));
}

TEST(Decoder, ATextDoesNotSeeTheOthers) {
  Net m;
  Decoder three(m.net, 3), one(m.net, 1);
  const std::vector<Ids> together = decoded(three, kPrompts, kDrawn, 20);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(decoded(one, {kPrompts[i]}, kDrawn, 20)[0], together[i]);
}

// A longer prompt is taken as its ids come, and draws nothing for them.
TEST(Decoder, GivenIdsStandInThePlaceOfChosenOnes) {
  Net m;
  RepeatedWork graphs;
  Decoder two(m.net, 2, {graphs.capture()}), one(m.net, 1);
  const Ids prompt{3, 1, 4, 1, 5, 9, 2};
  const std::vector<std::uint64_t> seeds{8, 3};
  two.begin(kDrawn, seeds);
  two.read({8, 8, 8, 3, 1, 4}, {-1, prompt[3]});
  Ids got;
  for (std::size_t at = 4; at < 16; ++at) {
    const Ids last = two.ids();
    if (at <= prompt.size())
      EXPECT_EQ(last[1], prompt[at - 1]);
    else
      got.push_back(last[1]);
    two.step({-1, at < prompt.size() ? prompt[at] : -1});
  }
  EXPECT_EQ(got, decoded(one, {prompt}, kDrawn, static_cast<int>(got.size()))[0]);
}

TEST(Decoder, ReadsAgainWhenThePositionsAreTaken) {
  Net m;
  Decoder d(m.net, 1);
  decoded(d, {Ids(20, 7)}, {.temperature = 0}, 5);
  EXPECT_THAT(error_of([&] { d.step({-1}); }), HasSubstr("all 24 positions"));
  d.read(Ids(10, 7), {-1});  // what is behind these in the cache is not seen
  Decoder fresh(m.net, 1);
  fresh.begin({.temperature = 0}, std::vector<std::uint64_t>{7});
  fresh.read(Ids(10, 7), {-1});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(d.ids(), fresh.ids());
    d.step({-1}), fresh.step({-1});
  }
}

TEST(Decoder, SaysWhichTextHasNoFiniteLogits) {
  Net m;
  Tensor(m.net.parameters().front().tensor).as<float>()[7 * 16] = NAN;
  Decoder d(m.net, 2);
  d.begin({}, std::vector<std::uint64_t>{1, 2});
  d.read({1, 7}, none(2));
  EXPECT_THAT(error_of([&] { d.ids(); }), HasSubstr("of text 0 are not finite"));
  EXPECT_THAT(error_of([&] { d.ids(); }), HasSubstr("before a step"));
}

}  // namespace
}  // namespace gossamer::models
