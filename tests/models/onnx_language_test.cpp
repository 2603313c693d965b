// ONNX files of language models give what the networks compute. onnx_test.cpp: those of ResNets.
#include "gossamer/models/onnx_language.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/random.h"
#include "gossamer/models/gpt2.h"
#include "gossamer/models/llama.h"
#include "gossamer/nn/lora.h"
#include "support/error_of.h"
#include "support/onnx_graph.h"

namespace gossamer::models {
namespace {

using gossamer::testing::OnnxGraph;
namespace onnx = gossamer::testing::onnx;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr i64 kPositions = 16, kVocabulary = 50;

struct Model {
  std::string name;
  std::unique_ptr<LanguageNet> net;
};

// Weights of which each counts: scores differ, norms are not 1 and biases not 0.
template <class Net, class Options>
Model used(const std::string& name, const Options& options) {
  auto net = std::make_unique<Net>(options);
  Rng rng(6);
  for (NamedTensor& p : net->parameters()) {
    const bool norm = p.tensor.rank() == 1 && p.name.ends_with("weight");
    for (float& v : p.tensor.template span<float>()) v = rng.uniform() + (norm ? 0.5f : -0.5f);
  }
  net->eval();
  return {name, std::move(net)};
}

// All that options change in a graph.
std::vector<Model> models() {
  std::vector<Model> all;
  const Gpt2Options gpt2{.layers = 2,
                         .width = 12,
                         .heads = 3,
                         .positions = kPositions,
                         .vocabulary = kVocabulary,
                         .bias = true,
                         .gelu = "tanh"};
  all.push_back(used<Gpt2>("gpt2", gpt2));
  Gpt2Options plain = gpt2;
  plain.ff = 24;
  plain.tied = plain.bias = false;
  plain.gelu = "erf";
  all.push_back(used<Gpt2>("gpt2 untied, without biases, erf", plain));

  const LlamaOptions llama{.layers = 2,
                           .width = 16,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_size = 4,
                           .ff = 24,
                           .positions = kPositions,
                           .vocabulary = kVocabulary};
  const auto changed = [&](const std::string& name, auto&& change) {
    LlamaOptions o = llama;
    change(o);
    all.push_back(used<Llama>("llama, " + name, o));
  };
  changed("groups", [](LlamaOptions&) {});
  changed("no groups", [](LlamaOptions& o) { o.kv_heads = o.heads; });
  changed("tied", [](LlamaOptions& o) { o.tied = true; });
  changed("biases", [](LlamaOptions& o) { o.qkv_bias = o.out_bias = o.mlp_bias = true; });
  changed("window", [](LlamaOptions& o) {
    o.window = 3;
    o.windowed_from = 1;
  });
  changed("norms of wide heads", [](LlamaOptions& o) {
    o.type = "qwen3";
    o.head_norms = true;
    o.head_size = 6;
  });
  // of its four frequencies one is kept, one mixed and two divided
  changed("llama3", [](LlamaOptions& o) {
    o.head_size = 8;
    o.theta = 100;
    o.scaling = {.type = "llama3", .factor = 8, .old_positions = 32};
  });
  changed("linear", [](LlamaOptions& o) { o.scaling = {.type = "linear", .factor = 4}; });
  return all;
}

Tensor random_ids(i64 texts, i64 length) {
  Rng rng(7);
  Tensor ids = Tensor::empty({texts, length}, DType::i32);
  for (auto& id : ids.span<std::int32_t>())
    id = static_cast<std::int32_t>(static_cast<float>(kVocabulary) * rng.uniform());
  return ids;
}

TEST(OnnxLanguage, TheGraphComputesWhatTheNetworkDoes) {
  const NoGrad no_grad;
  for (const Model& model : models()) {
    const OnnxGraph graph(onnx_bytes(*model.net, "name", {}));
    for (const auto& [texts, length] : {std::pair<i64, i64>{2, 9}, {3, 1}, {1, kPositions}}) {
      SCOPED_TRACE(model.name + ", " + std::to_string(length) + " ids");
      const Tensor ids = random_ids(texts, length), wanted = model.net->forward(ids);
      const auto numbers = ids.span<std::int32_t>();
      const OnnxGraph::Value logits = graph({{texts, length}, {numbers.begin(), numbers.end()}});
      ASSERT_THAT(logits.shape, ElementsAre(texts, length, kVocabulary));
      double error = 0, size = 0;
      for (std::size_t i = 0; i < logits.numbers.size(); ++i) {
        const auto want = static_cast<double>(wanted.span<float>()[i]);
        error += std::pow(logits.numbers[i] - want, 2);
        size += want * want;
      }
      EXPECT_LT(std::sqrt(error / size), 2e-6);
    }
  }
}

TEST(OnnxLanguage, TheFileSaysWhatItIsAndHasEachParameterAsItIs) {
  for (const Model& model : models()) {
    SCOPED_TRACE(model.name);
    const OnnxGraph graph(onnx_bytes(*model.net, "name", {{"k", "v"}, {"other", ""}}));
    EXPECT_EQ(graph.opset, 17);
    EXPECT_EQ(graph.name, "name");
    EXPECT_EQ(graph.metadata, (std::map<std::string, std::string>{{"k", "v"}, {"other", ""}}));
    EXPECT_EQ(graph.input.name, "ids");
    EXPECT_EQ(graph.input.type, onnx::kInt64);
    EXPECT_THAT(graph.input.shape, ElementsAre("N", "T"));
    EXPECT_EQ(graph.output.name, "logits");
    EXPECT_EQ(graph.output.type, onnx::kFloat);
    EXPECT_THAT(graph.output.shape, ElementsAre("N", "T", std::to_string(kVocabulary)));
    for (const NamedTensor& p : model.net->parameters()) {
      ASSERT_TRUE(graph.constants.contains(p.name)) << p.name;
      const OnnxGraph::Value& is = graph.constants.at(p.name);
      EXPECT_EQ(is.type, onnx::kFloat) << p.name;
      EXPECT_EQ(is.shape, std::vector<i64>(p.tensor.shape().begin(), p.tensor.shape().end()));
      EXPECT_TRUE(std::ranges::equal(is.numbers, p.tensor.span<float>())) << p.name;
    }
  }
}

TEST(OnnxLanguage, AModelWithAdaptersIsAnError) {
  Llama net({.layers = 1, .width = 8, .heads = 2, .kv_heads = 2, .head_size = 4, .ff = 8});
  net.adapt({.rank = 2});
  EXPECT_THAT(error_of<ConfigError>([&] { onnx_bytes(net, "name", {}); }),
              HasSubstr("can be written as ONNX"));
}

}  // namespace
}  // namespace gossamer::models
