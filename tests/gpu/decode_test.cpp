// Decoding on a GPU: the ids of the CPU, by eager steps and by a graph, and how fast they come.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <gtest/gtest.h>

#include "gossamer/core/cuda.h"
#include "gossamer/core/flat.h"
#include "gossamer/models/decoder.h"
#include "gossamer/models/gpt2.h"
#include "gossamer/models/translator.h"

namespace gossamer::models {
namespace {

using Ids = Decoder::Ids;

class GpuDecoding : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  }
};

std::vector<Ids> decoded(Decoder& d, const Choice& choice, int count) {
  const auto texts = static_cast<std::size_t>(d.texts());
  std::vector<std::uint64_t> seeds;
  Ids prompts;
  for (std::size_t i = 0; i < texts; ++i) {
    seeds.push_back(i);
    for (std::size_t t = 0; t < 3; ++t)
      prompts.push_back(static_cast<std::int32_t>((11 * i + 5 * t) % 40));
  }
  const Ids none(texts, -1);
  d.begin(choice, seeds);
  d.read(prompts, none);
  std::vector<Ids> out;
  for (int made = 1; made <= count; ++made) {
    if (made < count) d.step(none);
    out.push_back(d.ids());
  }
  return out;
}

TEST_F(GpuDecoding, AGraphMakesTheIdsOfEagerStepsAndOfTheCpu) {
  Gpt2 net({.layers = 2, .width = 64, .heads = 2, .positions = 80, .vocabulary = 40});
  for (NamedTensor& p : net.parameters())
    if (p.tensor.rank() == 2)
      for (float& v : p.tensor.span<float>()) v *= 8;  // far from ties
  net.eval();
  for (const Choice& choice :
       {Choice{.temperature = 0}, Choice{.top_k = 12, .top_p = 0.9, .known = 37}}) {
    net.to(Device::cpu());
    Decoder there(net, 4);
    const std::vector<Ids> want = decoded(there, choice, 70);
    net.to(Device::cuda());
    Decoder eager(net, 4), graph(net, 4, {cuda_graph_capture(Device::cuda())});
    const std::vector<Ids> got = decoded(eager, choice, 70);
    EXPECT_EQ(got, want);
    for (int round = 0; round < 2; ++round) EXPECT_EQ(decoded(graph, choice, 70), got);
  }
}

// Sentences of several lengths, so that several graphs are made and batches shrink.
TEST_F(GpuDecoding, TranslationsByGraphsAreThoseOfEagerStepsAndOfTheCpu) {
  constexpr std::int32_t kBegin = 1, kEnd = 2;
  Transformer net({.layers = 2,
                   .width = 64,
                   .ff = 128,
                   .heads = 2,
                   .vocabulary = 40,
                   .positions = 60,
                   .norm_first = true});
  for (NamedTensor& p : net.parameters())
    if (p.tensor.rank() == 2)
      for (float& v : p.tensor.span<float>()) v *= 3;  // far from ties
  net.eval();
  std::vector<Ids> sources;
  std::vector<i64> limits;
  for (std::int32_t i = 0; i < 12; ++i) {
    Ids ids;
    for (std::int32_t t = 0; t < 3 + 4 * i % 37; ++t) ids.push_back(3 + (11 * i + 5 * t) % 37);
    ids.push_back(kEnd);
    limits.push_back(static_cast<i64>(ids.size()) + 10);
    sources.push_back(std::move(ids));
  }
  const auto ids_of = [&](Translator& t) {
    std::vector<Ids> out;
    for (const auto& h : t.translate(sources, limits)) out.push_back(h.ids);
    return out;
  };
  for (const i64 beam : {1, 4}) {
    const BeamOptions search{.beam = beam, .begin = kBegin, .end = kEnd};
    net.to(Device::cpu());
    Translator there(net, search);
    const std::vector<Ids> want = ids_of(there);
    net.to(Device::cuda());
    Translator eager(net, search),
        graphs(net, search, {.capture = cuda_graph_capture(Device::cuda())});
    EXPECT_EQ(ids_of(eager), want);
    for (int round = 0; round < 3; ++round) EXPECT_EQ(ids_of(graphs), want);
    EXPECT_GT(graphs.graphs(), 0u);
  }
}

// GPT-2 small; the JSON lines are for tests/gpu/run.
TEST_F(GpuDecoding, IdsPerSecondOfGpt2) {
  Gpt2 net({.vocabulary = 50304});
  net.to(Device::cuda());
  const FlatParams params(net.parameters(), net.buffers(), {.compute = DType::bf16});
  net.eval();
  for (const i64 texts : {1, 32}) {
    Decoder d(net, texts, {cuda_graph_capture(Device::cuda())});
    decoded(d, {.top_k = 40}, 10);
    const auto began = std::chrono::steady_clock::now();
    decoded(d, {.top_k = 40}, 512);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::printf("{\"decoded_texts\": %d, \"ids_per_s_of_%d\": %.0f}\n", static_cast<int>(texts),
                static_cast<int>(texts), static_cast<double>(texts) * 512 / seconds);
  }
}

}  // namespace
}  // namespace gossamer::models
