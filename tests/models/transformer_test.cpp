// The encoder-decoder against torch.nn.Transformer (golden/transformer-*.safetensors): memory,
// logits, loss, every gradient, ten steps of AdamW, greedy and beam search with a cache.
#include "gossamer/models/transformer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/decode.h"
#include "gossamer/models/sampling.h"
#include "gossamer/models/transformer_file.h"
#include "gossamer/models/translator.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/optim.h"
#include "support/error_of.h"
#include "support/repeated_work.h"
#include "support/use_backend.h"

namespace gossamer::models {
namespace {

constexpr std::int32_t kPad = 0, kBegin = 2, kEnd = 3;

double distance(std::span<const float> x, std::span<const float> wanted) {
  EXPECT_EQ(x.size(), wanted.size());
  double apart = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    apart += (double(x[i]) - wanted[i]) * (double(x[i]) - wanted[i]);
    norm += double(wanted[i]) * wanted[i];
  }
  return std::sqrt(apart / norm);
}

// norm_first
class TransformerModel : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    golden = read_safetensors(std::string(GOSSAMER_SOURCE_DIR "/tests/golden/transformer-") +
                              (GetParam() ? "prenorm" : "postnorm") + ".safetensors");
    const Tensor &src = get("src"), &tgt = get("tgt");
    source = src;
    lengths = Tensor::zeros({3}, DType::i32);
    const i64 rows = tgt.shape(0), length = tgt.shape(1) - 1;
    inputs = Tensor::empty({rows, length}, DType::i32);
    labels = Tensor::empty({rows, length}, DType::i32);
    for (i64 b = 0; b < rows; ++b) {
      const auto* ids = src.as<std::int32_t>() + b * src.shape(1);
      lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(
          std::count_if(ids, ids + src.shape(1), [](std::int32_t id) { return id != kPad; }));
      const auto* next = tgt.as<std::int32_t>() + b * tgt.shape(1);
      for (i64 i = 0; i < length; ++i) {
        inputs.as<std::int32_t>()[b * length + i] = next[i];
        labels.as<std::int32_t>()[b * length + i] = next[i + 1] == kPad ? -1 : next[i + 1];
      }
    }
  }
  const Tensor& get(const std::string& name) const { return *golden.find(name); }
  nn::Weights weights(const std::string& prefix) const {
    nn::Weights out{.file = "golden", .tensors = {}, .metadata = {}, .notes = {}};
    for (const NamedTensor& t : golden.tensors)
      for (const char* first : {"embedding.", "transformer."})
        if (t.name.starts_with(prefix + first))
          out.tensors.push_back({t.name.substr(prefix.size()), t.tensor});
    return transformer_weights(std::move(out));
  }
  Transformer model(const std::string& prefix = "") const {
    nn::seed_initialisation(1);
    Transformer net({.layers = 2,
                     .width = 32,
                     .ff = 48,
                     .heads = 4,
                     .vocabulary = 64,
                     .positions = 40,
                     .dropout = 0,
                     .eps = GetParam() ? 1e-6f : 1e-5f,
                     .norm_first = GetParam()});
    nn::load(weights(prefix), net);
    return net;
  }
  SafeTensors golden;
  Tensor source, lengths, inputs, labels;
};

INSTANTIATE_TEST_SUITE_P(Norms, TransformerModel, testing::Bool());

TEST_P(TransformerModel, MemoryLogitsLossAndEveryGradientEqualTorch) {
  Transformer net = model();
  FlatParams params(net.parameters(), net.buffers());
  const Tensor memory = net.encode(source, lengths);
  const Tensor logits = net.logits(net.decode(memory, lengths, inputs));
  for (i64 b = 0; b < 3; ++b) {  // where no padding is
    const i64 n = lengths.as<std::int32_t>()[b], width = memory.shape(2);
    const auto rows = [&](const Tensor& t, i64 count) {
      return t.slice(b, b + 1).reshape({t.shape(1), t.shape(2)}).slice(0, count).span<float>();
    };
    EXPECT_LT(distance(rows(memory, n), rows(get("memory"), n)), 1e-5) << width;
    i64 known = 0;
    while (known < labels.shape(1) && labels.as<std::int32_t>()[b * labels.shape(1) + known] >= 0)
      ++known;
    EXPECT_LT(distance(rows(logits, known), rows(get("logits"), known)), 1e-5);
  }
  const Tensor loss = net.loss(source, lengths, inputs, labels, 0.1f);
  EXPECT_NEAR(loss.item(), get("loss").item(), 1e-5);
  params.zero_grad();
  params.backward(loss);
  params.settle_grads();
  const nn::Weights wanted = weights("grad.");
  std::size_t compared = 0;
  for (const NamedTensor& g : params.windows(params.grads())) {
    const Tensor* want = wanted.find(g.name);
    ASSERT_NE(want, nullptr) << g.name;
    EXPECT_LT(distance(g.tensor.span<float>(), want->span<float>()), 1e-4) << g.name;
    ++compared;
  }
  EXPECT_EQ(compared, wanted.tensors.size());
}

TEST_P(TransformerModel, TenStepsOfAdamWHaveItsLosses) {
  Transformer net = model();
  FlatParams params(net.parameters(), net.buffers());
  nn::Adam adam(
      params,
      {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1f, .decoupled = true});
  for (const float want : get("losses").span<float>()) {
    const Tensor loss = net.loss(source, lengths, inputs, labels, 0.1f);
    EXPECT_NEAR(loss.item(), want, 2e-5f * want);
    params.zero_grad();
    params.backward(loss);
    adam.step(1e-3f);
  }
}

TEST_P(TransformerModel, GreedyWithACacheEqualsTorchWithout) {
  Transformer net = model("trained.");
  net.eval();
  const Tensor wanted = get("greedy");
  const i64 length = wanted.shape(1);
  const Transformer::Cache cache = net.cache(net.encode(source, lengths), lengths, 1, length);
  TextPositions positions(3, Device::cpu());
  Tensor ids = Tensor::full({3}, kBegin, DType::i32);
  for (i64 i = 1; i < length; ++i) {
    const Tensor logits = net.step(ids, cache, positions);
    positions.advance();
    for (i64 b = 0; b < 3; ++b) {
      const auto next = largest(logits.slice(b, b + 1).span<float>());
      EXPECT_EQ(next, wanted.as<std::int32_t>()[b * length + i]) << b << " at " << i;
      ids.as<std::int32_t>()[b] = static_cast<std::int32_t>(next);
    }
  }
}

// On each backend, with graphs and without: translator_test.cpp has networks without a file.
TEST_P(TransformerModel, BeamSearchOfSeveralSentencesIsThatOfOneAtATime) {
  Transformer net = model("trained.");
  net.eval();
  std::vector<i64> limits;
  std::vector<std::vector<std::int32_t>> sources;
  for (i64 b = 0; b < 3; ++b) {
    const i64 length = lengths.as<std::int32_t>()[b];
    limits.push_back(length + 20);
    const auto* row = source.as<std::int32_t>() + b * source.shape(1);
    sources.emplace_back(row, row + length);
  }
  const Tensor wanted = get("beam4");
  for (const std::string& name : backend_names())
    for (const bool fixed : {false, true}) {
      SCOPED_TRACE(name + (fixed ? " with graphs" : ""));
      const UseBackend use(name);
      RepeatedWork graphs;
      Translator translator(net, {.beam = 4, .length_penalty = 0.6, .begin = kBegin, .end = kEnd},
                            {.capture = fixed ? graphs.capture() : GraphCapture()});
      const auto found = translator.translate(sources, limits);
      EXPECT_EQ(graphs.launched > 0, fixed);
      bool greedy = true;
      for (i64 b = 0; b < 3; ++b) {
        const auto* row = wanted.as<std::int32_t>() + b * wanted.shape(1);
        std::vector<std::int32_t> want;
        for (i64 i = 1; i < wanted.shape(1) && row[i] != kPad; ++i) want.push_back(row[i]);
        const auto& own = found[static_cast<std::size_t>(b)];
        EXPECT_EQ(own.ids, want);
        EXPECT_NEAR(own.score, get("beam4_scores").as<float>()[b], 1e-4);
        for (std::size_t i = 0; i < std::min<std::size_t>(want.size(), 12); ++i)
          greedy &= want[i] ==
                    get("greedy")
                        .as<std::int32_t>()[b * get("greedy").shape(1) + static_cast<i64>(i) + 1];
      }
      EXPECT_FALSE(greedy) << "the beams find something else";
    }
}

TEST_P(TransformerModel, RowsReadTheirSourceHoweverManyThereAre) {
  Transformer net = model("trained.");
  net.eval();
  const NoGrad no_grad;
  const Tensor memory = net.encode(source, lengths);
  const auto steps = [&](i64 each) {
    const Transformer::Cache cache = net.cache(memory, lengths, each, 8);
    TextPositions positions(3 * each, Device::cpu());
    net.step(Tensor::full({3 * each}, 5, DType::i32), cache, positions);
    positions.advance();
    return net.step(Tensor::full({3 * each}, 7, DType::i32), cache, positions);
  };
  const Tensor one = steps(1), four = steps(4);
  const i64 width = one.shape(1);
  for (i64 row = 0; row < four.shape(0); ++row)
    for (i64 i = 0; i < width; ++i)
      EXPECT_NEAR(four.as<float>()[row * width + i], one.as<float>()[row / 4 * width + i], 1e-4);
  EXPECT_THAT(error_of<ShapeError>([&] {
                net.step(Tensor::zeros({2}, DType::i32), net.cache(memory, lengths, 1, 8),
                         TextPositions(2, Device::cpu()));
              }),
              testing::HasSubstr("one id of each row, [3], not [2]"));
}

TEST_P(TransformerModel, TooLongSentencesAreAnError) {
  Transformer net = model();
  EXPECT_THROW(net.encode(Tensor::zeros({1, 41}, DType::i32), {}), ShapeError);
}

TEST_P(TransformerModel, TheHeaderOfItsFileSaysHowToMakeItAgain) {
  const Transformer net = model();
  nn::Weights file{.file = "m.safetensors",
                   .tensors = nn::in_file_layout(net.state()),
                   .metadata = metadata_of(net.options()),
                   .notes = {}};
  const auto said = transformer_header_of(file);
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(metadata_of(*said), file.metadata);
  nn::load(file, *std::make_unique<Transformer>(*said));
  for (const auto& [key, value, says] : std::vector<std::array<std::string, 3>>{
           {"heads", "four", "\"heads\" in the header is \"four\"; it must be a whole number"},
           {"vocabulary", "65", "vocabulary 65, width 32"},
           {"layers", "1000", "are not its tensors'"}}) {
    nn::Weights damaged = file;
    damaged.metadata[key] = value;
    EXPECT_THAT(error_of<IoError>([&] { transformer_header_of(damaged); }),
                ::testing::HasSubstr(says));
  }
  file.metadata.erase("task");
  EXPECT_FALSE(transformer_header_of(file).has_value());
}

}  // namespace
}  // namespace gossamer::models
