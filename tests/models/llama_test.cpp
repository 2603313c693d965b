// LLaMA's kind of model against Hugging Face's (golden/llama, made by transformers 5.24 in f64):
// logits, losses, every gradient, steps of AdamW, greedy continuation with and without a cache.
#include "gossamer/models/llama.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/error.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/models/decoder.h"
#include "gossamer/models/llama_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/models/sampling.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/optim.h"
#include "support/error_of.h"
#include "support/golden_llama.h"
#include "support/use_backend.h"

namespace gossamer::models {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Golden {
  explicit Golden(const std::string& name)
      : values(read_safetensors(golden_llama(name == "llama-sharded" ? "llama" : name) /
                                "golden.safetensors")),
        weights(llama_weights(nn::read_weights(
            golden_llama(name) /
            (name == "llama-sharded" ? "model.safetensors.index.json" : "model.safetensors")))),
        options(read_llama_config(text_of(golden_llama(name) / "config.json"), name)) {}

  Tensor operator[](const std::string& key) const {
    const Tensor* t = values.find(key);
    check(t != nullptr, "golden values: no ", key);
    return *t;
  }
  Llama model() const {
    const nn::NoInitialValues none;
    check_llama_fits(weights, options);
    Llama out(options);
    load_llama(weights, out);
    return out;
  }
  SafeTensors values;
  nn::Weights weights;
  LlamaOptions options;
};

void expect_near(const Tensor& got, const Tensor& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.numel(), want.numel()) << what;
  double apart = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i)
    apart = std::max(apart, std::abs(static_cast<double>(got.span<float>()[i]) -
                                     static_cast<double>(want.span<float>()[i])));
  EXPECT_LE(apart, tolerance) << what;
}
double largest_of(const Tensor& t) {
  double all = 0;
  for (const float v : t.span<float>()) all = std::max(all, std::abs(static_cast<double>(v)));
  return all;
}

// The label of each position: the next of these ids, of which -100 counts for nothing.
Tensor shifted(const Tensor& ids) {
  Tensor out = Tensor::full(ids.shape(), -1, DType::i32);
  const i64 length = ids.shape(1);
  for (i64 i = 0; i < ids.numel(); ++i)
    if (const std::int32_t* next = ids.as<std::int32_t>() + i + 1;
        i % length + 1 < length && *next != -100)
      out.as<std::int32_t>()[i] = *next;
  return out;
}

// Names in golden files have "model." in front; gradients of at least 1e-3 are compared by share.
void expect_gradients(const Golden& g, const std::string& prefix, const FlatParams& params,
                      bool all) {
  std::size_t compared = 0;
  for (const NamedTensor& grad : params.windows(params.grads())) {
    const std::string name = (grad.name == "lm_head.weight" ? "" : "model.") + grad.name;
    const Tensor* want = g.values.find(prefix + name);
    if (!want && !all) continue;
    ASSERT_NE(want, nullptr) << prefix << name;
    expect_near(grad.tensor, *want, 1e-4 * std::max(largest_of(*want), 1e-3), prefix + name);
    ++compared;
  }
  EXPECT_GT(compared, 0u);
}

class GoldenLlama : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, GoldenLlama, llama_families(), llama_family_name);

TEST_P(GoldenLlama, LogitsLossAndEveryGradientEqualHuggingFace) {
  const Golden g(GetParam());
  for (const std::string& form : backend_names()) {
    SCOPED_TRACE(form);
    const UseBackend use(form);
    Llama model = g.model();
    FlatParams params(model.parameters(), model.buffers());
    EXPECT_EQ(params.parameter_count(), parameter_count(g.options));
    const Tensor ids = g["input_ids"];
    {
      const NoGrad off;
      expect_near(model(ids), g["logits"], 3e-5, "logits");
    }
    const Tensor loss = model.loss(ids, shifted(ids));
    EXPECT_NEAR(loss.item(), g["loss"].item(), 1e-5);
    params.zero_grad();
    params.backward(loss);
    params.settle_grads();
    expect_gradients(g, "grad.", params, true);
  }
}

TEST_P(GoldenLlama, StepsOfAdamWHaveItsLosses) {
  const Golden g(GetParam());
  Llama model = g.model();
  FlatParams params(model.parameters(), model.buffers());
  nn::Adam adam(
      params,
      {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1f, .decoupled = true});
  const Tensor ids = g["input_ids"], labels = shifted(ids);
  for (const float want : g["losses"].span<float>()) {
    const Tensor loss = model.loss(ids, labels);
    EXPECT_NEAR(loss.item(), want, 2e-5f * want);
    params.zero_grad();
    params.backward(loss);
    adam.step(1e-2f);
  }
}

std::vector<std::int32_t> likeliest_of(const Tensor& logits) {
  std::vector<std::int32_t> out;
  const auto wide = static_cast<std::size_t>(logits.shape(-1));
  for (i64 b = 0; b < logits.shape(0); ++b)
    out.push_back(static_cast<std::int32_t>(
        largest(logits.span<float>().subspan(static_cast<std::size_t>(b) * wide, wide))));
  return out;
}

// ids [B, T] with one more of each
Tensor with(const Tensor& ids, const std::vector<std::int32_t>& next) {
  Tensor out = Tensor::empty({ids.shape(0), ids.shape(1) + 1}, DType::i32);
  for (i64 b = 0; b < ids.shape(0); ++b) {
    auto* row = out.as<std::int32_t>() + b * out.shape(1);
    std::copy_n(ids.as<std::int32_t>() + b * ids.shape(1), ids.shape(1), row);
    row[ids.shape(1)] = next[static_cast<std::size_t>(b)];
  }
  return out;
}
Tensor first_columns(const Tensor& ids, i64 columns) {
  Tensor out = Tensor::empty({ids.shape(0), columns}, DType::i32);
  for (i64 b = 0; b < ids.shape(0); ++b)
    std::copy_n(ids.as<std::int32_t>() + b * ids.shape(1), columns,
                out.as<std::int32_t>() + b * columns);
  return out;
}

TEST_P(GoldenLlama, GreedyIsHuggingFacesWithoutACacheWithOneAndByADecoder) {
  const NoGrad off;
  const Golden g(GetParam());
  Llama model = g.model();
  const Tensor wanted = g["greedy"], prompt = first_columns(wanted, 8);
  const std::vector<std::int32_t> want(wanted.span<std::int32_t>().begin(),
                                       wanted.span<std::int32_t>().end());
  Tensor cached = prompt, whole = prompt, fed = prompt;
  Llama::Cache cache = model.cache(prompt.shape(0));
  Decoder decoder(model, prompt.shape(0));
  decoder.begin({.temperature = 0}, std::vector<std::uint64_t>{0, 0});
  const std::vector<std::int32_t> none(2, -1);
  Tensor decoded = prompt;
  decoder.read({prompt.span<std::int32_t>().begin(), prompt.span<std::int32_t>().end()}, none);
  while (cached.shape(1) < wanted.shape(1)) {
    const auto next = likeliest_of(model.step(fed, cache));
    cached = with(cached, next);
    fed = Tensor::from(next, {prompt.shape(0), 1});
    whole = with(whole, likeliest_of(model.logits(last_rows(model.hidden(whole)))));
    decoded = with(decoded, decoder.ids());
    if (decoded.shape(1) < wanted.shape(1)) decoder.step(none);
  }
  for (const Tensor& got : {cached, whole, decoded})
    EXPECT_EQ(
        std::vector<std::int32_t>(got.span<std::int32_t>().begin(), got.span<std::int32_t>().end()),
        want);
}

TEST(Llama, LossesOfMaskedLabelsAndOfDocumentsInOneTextAreHuggingFaces) {
  const Golden g("llama");
  Llama model = g.model();
  FlatParams params(model.parameters(), model.buffers());
  const Tensor ids = g["input_ids"];
  EXPECT_NEAR(model.loss(ids, shifted(g["labels_masked"])).item(), g["loss_masked"].item(), 1e-5);

  const Tensor lengths = g["packed.lengths"], row = ids.slice(0, 1);
  Tensor begins = Tensor::empty(row.shape(), DType::i32);
  std::int32_t begin = 0;
  for (const std::int32_t n : lengths.span<std::int32_t>()) {
    std::fill_n(begins.as<std::int32_t>() + begin, n, begin);
    begin += n;
  }
  ASSERT_EQ(begin, row.numel());
  const Tensor hidden = model.hidden(row, begins);
  expect_near(model.logits(hidden).detach(), g["packed.logits"], 3e-5, "logits");
  const Tensor loss = model.loss_of(hidden, shifted(g["packed.labels"]));
  EXPECT_NEAR(loss.item(), g["packed.loss"].item(), 1e-5);
  params.zero_grad();
  params.backward(loss);
  params.settle_grads();
  expect_gradients(g, "packed.grad.", params, false);
}

// Hugging Face's bf16 is up to 0.19 away from f64, 0.02 on average.
TEST(Llama, In16BitsItIsAsNearAsHuggingFaces) {
  const NoGrad off;
  const Golden g("llama");
  Llama model = g.model();
  const FlatParams params(model.parameters(), model.buffers(), {.compute = DType::bf16});
  const Tensor logits = model(g["input_ids"]).to(DType::f32);
  expect_near(logits, g["logits"], 0.2, "logits");
  expect_near(logits, g["logits_bf16"], 0.3, "Hugging Face's in bf16");
}

TEST(Llama, PartsOfAMatrixAreNeighboursInFlatParamsWithNamesOfTheirOwn) {
  const Golden g("qwen2");
  Llama model = g.model();
  for (const DType type : {DType::f32, DType::bf16}) {
    const FlatParams params(model.parameters(), model.buffers(), {.compute = type});
    const auto offset = [&](const std::string& name) {
      const auto at = std::ranges::find(params.entries(), name, &FlatParams::Entry::name);
      check(at != params.entries().end(), "no ", name);
      return at->offset;
    };
    for (const char* kind : {"weight", "bias"}) {
      const std::string of = "layers.1.self_attn.", end = std::string("_proj.") + kind;
      const i64 row = kind[0] == 'w' ? 24 : 1;
      EXPECT_EQ(offset(of + "k" + end), offset(of + "q" + end) + 24 * row);
      EXPECT_EQ(offset(of + "v" + end), offset(of + "k" + end) + 12 * row);
      EXPECT_EQ(offset(of + "q" + end) % 32, 0);
    }
    EXPECT_EQ(offset("layers.0.mlp.up_proj.weight"),
              offset("layers.0.mlp.gate_proj.weight") + 32 * 24);
  }
}

TEST(Llama, WithFrozenPartsTheOthersGetTheirGradients) {
  const Golden g("llama");
  Llama model = g.model();
  model.freeze([](const std::string& name) { return name.find("k_proj") != name.npos; });
  auto parts = model.parts();
  EXPECT_EQ(parts.frozen.size(), 2u);
  FlatParams params(parts.parameters, parts.buffers, {}, parts.frozen);
  const Tensor ids = g["input_ids"], loss = model.loss(ids, shifted(ids));
  EXPECT_NEAR(loss.item(), g["loss"].item(), 1e-5);
  params.zero_grad();
  params.backward(loss);
  expect_gradients(g, "grad.", params, true);
}

TEST(Llama, RopeTablesAreExact) {
  const SafeTensors file = read_safetensors(golden_llama("rope.safetensors"));
  LlamaOptions plain{.head_size = 64}, scaled = llama_options("llama-3.2-1b", {});
  const Tensor positions = *file.find("positions");
  const i64 most = *std::ranges::max_element(positions.span<std::int32_t>()) + 1;
  for (const auto& [name, options] :
       {std::pair("theta10000", plain), std::pair("llama32", scaled)}) {
    const Tensor table = rope_table(options, most),
                 want = *file.find(std::string(name) + ".cos_true");
    for (i64 p = 0; p < positions.numel(); ++p)
      for (i64 i = 0; i < 32; ++i)
        ASSERT_NEAR(table.as<float>()[positions.as<std::int32_t>()[p] * 64 + i],
                    want.as<float>()[p * 32 + i], 1e-7f)
            << name << ", position " << positions.as<std::int32_t>()[p] << ", pair " << i;
  }
}

TEST(LlamaSizes, AreThePublishedNumbersOfParameters) {
  const std::pair<const char*, i64> published[]{
      {"smollm2-135m", 134'515'008},   {"tinyllama-1.1b", 1'100'048'384},
      {"llama-3.2-1b", 1'235'814'400}, {"qwen2.5-0.5b", 494'032'768},
      {"qwen3-0.6b", 596'049'920},     {"mistral-7b", 7'241'732'096}};
  for (const auto& [name, count] : published) {
    const LlamaOptions o = llama_options(name, {});
    check_options(o);
    EXPECT_EQ(parameter_count(o), count) << name;
  }
}

TEST(LlamaSizes, FollowTheOptions) {
  const LlamaOptions o = llama_options("smollm2-135m", {.classes = 65, .layers = 2, .width = 384});
  EXPECT_EQ(o.heads, 6);
  EXPECT_EQ(o.kv_heads, 2);
  EXPECT_EQ(o.head_size, 64);
  EXPECT_EQ(o.ff, 1024);
  EXPECT_EQ(o.vocabulary, 65);
  const auto net =
      make("smollm2-135m", {.classes = 65, .layers = 2, .width = 384, .positions = 16});
  i64 count = 0;
  for (const NamedTensor& p : net->parameters()) count += p.tensor.numel();
  EXPECT_EQ(count, parameter_count(o));
  EXPECT_EQ(llama_options("llama", {.width = 96, .heads = 3}).head_size, 32);
  EXPECT_THAT(error_of<ConfigError>([] { llama_options("llama", {.width = 100, .heads = 3}); }),
              HasSubstr("no multiple of its 3 heads"));
  EXPECT_THAT(error_of<ConfigError>([] { make("llama", {.kv_heads = 4}); }),
              HasSubstr("cannot share 4 heads"));
  EXPECT_THAT(error_of<ConfigError>([] { make("llama", {.dropout = 0.1}); }),
              HasSubstr("takes no dropout"));
}

TEST(Llama, TextBeyondItsPositionsIsAnError) {
  Llama model(LlamaOptions{.layers = 1,
                           .width = 8,
                           .heads = 2,
                           .kv_heads = 1,
                           .head_size = 4,
                           .ff = 8,
                           .positions = 6,
                           .vocabulary = 10,
                           .window = 3});
  EXPECT_THAT(error_of<ShapeError>([&] {
                model(Tensor::zeros({1, 7}, DType::i32));
              }),
              HasSubstr("6 positions"));
  Llama::Cache cache = model.cache(1);
  EXPECT_EQ(cache.layers[0].shape(1), 3);  // a ring
  EXPECT_EQ(model.cache_numbers(), 3 * 8);
  model.step(Tensor::zeros({1, 2}, DType::i32), cache);
  EXPECT_THAT(error_of<ShapeError>([&] {
                model.step(Tensor::zeros({1, 2}, DType::i32), cache);
              }),
              HasSubstr("one id at a time"));
  for (int i = 0; i < 4; ++i) model.step(Tensor::zeros({1, 1}, DType::i32), cache);
  EXPECT_THROW(model.step(Tensor::zeros({1, 1}, DType::i32), cache), ShapeError);
}

}  // namespace
}  // namespace gossamer::models
