// GPT-2 against Hugging Face's (golden/gpt2-tiny.safetensors): logits, loss, every gradient, ten
// steps of AdamW, greedy continuation with and without a cache; and its files.
#include "gossamer/models/gpt2.h"

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/models/gpt2_file.h"
#include "gossamer/models/language_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/models/sampling.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/optim.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace gossamer::models {
namespace {

using ::testing::HasSubstr;

const SafeTensors& golden() {
  static const SafeTensors file =
      read_safetensors(GOSSAMER_SOURCE_DIR "/tests/golden/gpt2-tiny.safetensors");
  return file;
}

nn::Weights golden_weights() {
  nn::Weights out{.file = "golden", .tensors = {}, .metadata = {}, .notes = {}};
  for (const NamedTensor& t : golden().tensors)
    if (t.name.starts_with("transformer.")) out.tensors.push_back({t.name, t.tensor.clone()});
  return gpt2_weights(std::move(out));
}

Gpt2Options tiny_options() {
  return {.layers = 2, .width = 32, .heads = 4, .positions = 24, .vocabulary = 128};
}

Gpt2 golden_model() {
  nn::seed_initialisation(1);
  Gpt2 model(tiny_options());
  load_gpt2(golden_weights(), model);
  return model;
}

double distance(std::span<const float> x, std::span<const float> wanted) {
  EXPECT_EQ(x.size(), wanted.size());
  double apart = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    apart += (double(x[i]) - wanted[i]) * (double(x[i]) - wanted[i]);
    norm += double(wanted[i]) * wanted[i];
  }
  return std::sqrt(apart / norm);
}

// The next id of each, or none at the last position.
Tensor next_ids(const Tensor& ids) {
  Tensor out = Tensor::full(ids.shape(), -1, DType::i32);
  const i64 length = ids.shape(1);
  for (i64 i = 0; i < ids.numel(); ++i)
    if (i % length + 1 < length) out.as<std::int32_t>()[i] = ids.as<std::int32_t>()[i + 1];
  return out;
}

TEST(Gpt2Model, LogitsLossAndEveryGradientEqualHuggingFace) {
  Gpt2 model = golden_model();
  FlatParams params(model.parameters(), model.buffers());
  const Tensor ids = *golden().find("ids");
  const Tensor logits = model(ids);
  EXPECT_LT(distance(logits.span<float>(), golden().find("logits")->span<float>()), 1e-5);
  const Tensor loss = model.loss(ids, next_ids(ids));
  EXPECT_NEAR(loss.item(), golden().find("loss")->item(), 1e-5);
  params.zero_grad();
  params.backward(loss);
  params.settle_grads();
  nn::Weights wanted{.file = "golden", .tensors = {}, .metadata = {}, .notes = {}};
  for (const NamedTensor& t : golden().tensors)
    if (t.name.starts_with("grad.")) wanted.tensors.push_back({t.name.substr(5), t.tensor});
  wanted = gpt2_weights(std::move(wanted));
  std::size_t compared = 0;
  for (const NamedTensor& g : params.windows(params.grads())) {
    const Tensor* want = wanted.find(g.name);
    ASSERT_NE(want, nullptr) << g.name;
    EXPECT_LT(distance(g.tensor.span<float>(), want->span<float>()), 1e-4) << g.name;
    ++compared;
  }
  EXPECT_EQ(compared, 28u);
}

TEST(Gpt2Model, TenStepsOfAdamWHaveItsLosses) {
  Gpt2 model = golden_model();
  FlatParams params(model.parameters(), model.buffers());
  nn::Adam adam(
      params,
      {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1f, .decoupled = true});
  const Tensor ids = *golden().find("ids"), labels = next_ids(ids);
  const auto wanted = golden().find("losses")->span<float>();
  ASSERT_EQ(wanted.size(), 10u);
  for (const float want : wanted) {
    const Tensor loss = model.loss(ids, labels);
    EXPECT_NEAR(loss.item(), want, 2e-5f * want);
    params.zero_grad();
    params.backward(loss);
    adam.step(1e-3f);
  }
}

TEST(Gpt2Model, GreedyWithACacheIsGreedyWithoutAndHuggingFaces) {
  Gpt2 model = golden_model();
  model.eval();
  const Tensor wanted = *golden().find("greedy");
  const i64 rows = wanted.shape(0), length = wanted.shape(1);
  for (i64 row = 0; row < rows; ++row) {
    const auto* want = wanted.as<std::int32_t>() + row * length;
    std::vector<std::int32_t> with(want, want + 8), without = with;
    Gpt2::Cache cache = model.cache(1);
    std::vector<std::int32_t> fed = with;
    while (static_cast<i64>(with.size()) < length) {
      const Tensor logits = model.step(Tensor::from(fed, {1, static_cast<i64>(fed.size())}), cache);
      with.push_back(static_cast<std::int32_t>(largest(logits.span<float>())));
      fed = {with.back()};
      const Tensor all = model(Tensor::from(without, {1, static_cast<i64>(without.size())}));
      const auto last = all.span<float>().last(128);
      EXPECT_LT(distance(logits.span<float>(), last), 1e-5);
      without.push_back(static_cast<std::int32_t>(largest(last)));
    }
    EXPECT_EQ(with, std::vector<std::int32_t>(want, want + length));
    EXPECT_EQ(without, with);
    EXPECT_EQ(cache.length, length - 1);
  }
}

TEST(Gpt2Model, RowsOfABatchDoNotDependOnEachOther) {
  Gpt2 model = golden_model();
  const Tensor ids = *golden().find("ids");
  Gpt2::Cache all = model.cache(3), one = model.cache(1);
  const Tensor together = model.step(ids, all), alone = model.step(ids.slice(1, 2), one);
  EXPECT_LT(distance(alone.span<float>(), together.slice(1, 2).span<float>()), 1e-5);
}

TEST(Gpt2Model, TextBeyondItsPositionsIsAnError) {
  Gpt2 model = golden_model();
  EXPECT_THAT(error_of<ShapeError>([&] {
                model(Tensor::zeros({1, 25}, DType::i32));
              }),
              HasSubstr("24 positions"));
  Gpt2::Cache cache = model.cache(1);
  model.step(Tensor::zeros({1, 24}, DType::i32), cache);
  EXPECT_THROW(model.step(Tensor::zeros({1, 1}, DType::i32), cache), ShapeError);
}

TEST(Gpt2Model, DropoutChangesTrainingOnly) {
  Gpt2Options options = tiny_options();
  options.dropout = 0.2f;
  nn::seed_initialisation(1);
  Gpt2 model(options);
  load_gpt2(golden_weights(), model);
  const Tensor ids = *golden().find("ids"), labels = next_ids(ids);
  model.eval();
  EXPECT_NEAR(model.loss(ids, labels).item(), golden().find("loss")->item(), 1e-5);
  model.train();
  const float first = model.loss(ids, labels).item(), second = model.loss(ids, labels).item();
  EXPECT_NE(first, second);
  EXPECT_NEAR(first, golden().find("loss")->item(), 1);
}

// --- files

class Gpt2File : public InTempFolder {
 protected:
};

TEST_F(Gpt2File, IsHuggingFacesAndReadsBack) {
  const Gpt2 model = golden_model();
  save_language(file("model.safetensors"), model, nullptr);
  const SafeTensors written = read_safetensors(file("model.safetensors"));
  std::size_t weights = 0;
  for (const NamedTensor& t : golden().tensors) {
    if (!t.name.starts_with("transformer.")) continue;
    ++weights;
    const Tensor* ours = written.find(t.name);
    ASSERT_NE(ours, nullptr) << t.name;
    ASSERT_EQ(ours->shape(), t.tensor.shape()) << t.name;
    EXPECT_EQ(distance(ours->span<float>(), t.tensor.span<float>()), 0) << t.name;
  }
  EXPECT_EQ(written.tensors.size(), weights) << "no head, no counters";
  Gpt2 again(tiny_options());
  load_gpt2(gpt2_weights(nn::read_weights(file("model.safetensors"))), again);
  Gpt2 first = golden_model();
  const Tensor ids = *golden().find("ids");
  EXPECT_EQ(distance(again(ids).span<float>(), first(ids).span<float>()), 0);
}

TEST_F(Gpt2File, TheHubsFormWithoutPrefixAndWithMasksIsRead) {
  nn::Weights hub{.file = "hub", .tensors = {}, .metadata = {}, .notes = {}};
  for (const NamedTensor& t : golden().tensors)
    if (t.name.starts_with("transformer."))
      hub.tensors.push_back({t.name.substr(12), t.tensor.clone()});
  hub.tensors.push_back({"h.0.attn.bias", Tensor::zeros({1, 1, 24, 24})});
  hub.tensors.push_back({"h.1.attn.masked_bias", Tensor::zeros({})});
  hub.tensors.push_back({"lm_head.weight", golden().find("transformer.wte.weight")->clone()});
  const nn::Weights ours = gpt2_weights(hub);
  EXPECT_EQ(ours.tensors.size(), 28u);
  Gpt2 model(tiny_options());
  load_gpt2(ours, model);
  hub.tensors.back().tensor.as<float>()[0] += 1;
  EXPECT_FALSE(gpt2_of(gpt2_weights(hub).tensors)->tied);
}

TEST_F(Gpt2File, WithAHeadAndAnInnerWidthOfItsOwnReadsBack) {
  Gpt2Options options = tiny_options();
  options.tied = false;
  options.ff = 48;
  nn::seed_initialisation(3);
  Gpt2 model(options);
  save_language(file("model.safetensors"), model, nullptr);
  const SafeTensors theirs = read_safetensors(file("model.safetensors"));
  EXPECT_NE(theirs.find("lm_head.weight"), nullptr);
  EXPECT_EQ(theirs.find("transformer.h.0.mlp.c_fc.weight")->shape(), (Shape{32, 48}));
  const nn::Weights weights = gpt2_weights(nn::read_weights(file("model.safetensors")));
  Gpt2Options found = gpt2_of(weights.tensors).value();
  found.heads = options.heads;
  EXPECT_EQ(found, options);
  Gpt2 again(found);
  load_gpt2(weights, again);
  const Tensor ids = *golden().find("ids");
  EXPECT_EQ(distance(again(ids).span<float>(), model(ids).span<float>()), 0);
}

TEST_F(Gpt2File, SaysItsOptions) {
  const auto options = gpt2_of(golden_weights().tensors);
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->layers, 2);
  EXPECT_EQ(options->width, 32);
  EXPECT_EQ(options->positions, 24);
  EXPECT_EQ(options->vocabulary, 128);
  EXPECT_FALSE(gpt2_of({{"fc.weight", Tensor::zeros({3, 4})}}).has_value());
}

TEST_F(Gpt2File, ItsHeaderSaysWhatItsTensorsDoNot) {
  Gpt2Options options = tiny_options();
  options.bias = false;
  options.gelu = "erf";
  options.eps = 1e-6f;
  const Gpt2 model(options);
  save_language(file("model.safetensors"), model, nullptr, metadata_of("gpt2-tiny", options));
  nn::Weights weights = gpt2_weights(nn::read_weights(file("model.safetensors")));
  EXPECT_EQ(weights.metadata.at("model"), "gpt2-tiny");
  const Gpt2Options by_tensors = gpt2_of(weights.tensors).value();
  EXPECT_NE(by_tensors, options);
  EXPECT_EQ(gpt2_header_of(weights, by_tensors), options);
  for (const char* key : {"heads", "eps"}) {
    nn::Weights damaged = weights;
    damaged.metadata[key] = "none";
    EXPECT_THAT(error_of<IoError>([&] { gpt2_header_of(damaged, by_tensors); }),
                HasSubstr(std::string(key) + "\" in the header is \"none\""));
  }
  weights.metadata.clear();
  EXPECT_EQ(gpt2_header_of(weights, by_tensors), by_tensors);
}

TEST_F(Gpt2File, AModelWithoutBiasesHasZerosThereInItsFile) {
  Gpt2Options options = tiny_options();
  options.bias = false;
  options.gelu = "erf";
  nn::seed_initialisation(3);
  Gpt2 model(options);
  FlatParams params(model.parameters(), model.buffers());
  save_language(file("model.safetensors"), model, &params);
  const nn::Weights weights = gpt2_weights(nn::read_weights(file("model.safetensors")));
  EXPECT_EQ(weights.tensors.size(), 28u);
  Gpt2 again(options);
  load_gpt2(weights, again);
  const Tensor ids = *golden().find("ids");
  EXPECT_EQ(distance(again(ids).span<float>(), model(ids).span<float>()), 0);
  // with biases of zero it is the same model, but for the form of GELU
  Gpt2Options with = tiny_options();
  with.gelu = "erf";
  Gpt2 biased(with);
  load_gpt2(weights, biased);
  EXPECT_LT(distance(biased(ids).span<float>(), model(ids).span<float>()), 1e-6);
}

TEST_F(Gpt2File, AnotherShapeIsOneSentence) {
  Gpt2Options other = tiny_options();
  other.vocabulary = 130;
  Gpt2 model(other);
  const std::string error = error_of<IoError>([&] { load_gpt2(golden_weights(), model); });
  EXPECT_THAT(error, HasSubstr("wte.weight is f32[128, 32], wanted f32[130, 32]"));
}

TEST(Gpt2Sizes, AreThoseOfThePapers) {
  EXPECT_EQ(gpt2_options("gpt2", {}).layers, 12);
  EXPECT_EQ(gpt2_options("gpt2-medium", {}).width, 1024);
  EXPECT_THROW(gpt2_options("gpt3", {}), ConfigError);
  Gpt2Options odd = tiny_options();
  odd.heads = 5;
  EXPECT_THROW(Gpt2{odd}, ConfigError);
}

}  // namespace
}  // namespace gossamer::models
