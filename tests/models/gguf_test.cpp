// GGUF files hold the weights with llama.cpp's names, rows and keys. tests/interop/gguf_llamacpp.py
// asks the package gguf and llama.cpp.
#include "gossamer/models/gguf.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/nn/init.h"
#include "support/error_of.h"
#include "support/gguf_file.h"

namespace gossamer::models {
namespace {

using gossamer::testing::GgufFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

LlamaOptions small(std::string type = "llama") {
  LlamaOptions o{.type = std::move(type),
                 .layers = 2,
                 .width = 32,
                 .heads = 4,
                 .kv_heads = 2,
                 .head_size = 8,
                 .ff = 48,
                 .positions = 64,
                 .vocabulary = 40};
  o.qkv_bias = o.type == "qwen2";
  o.head_norms = o.type == "qwen3";
  return o;
}

// With vectors that differ from those of the beginning.
std::unique_ptr<LanguageNet> model_of(const LanguageOptions& options) {
  nn::seed_initialisation(5);
  auto net = make_language(options);
  Rng random(7);
  for (const NamedTensor& p : net->parameters())
    for (float& v : Tensor(p.tensor).span<float>()) v += 0.1f * random.normal();
  return net;
}

GgufFile file_of(const LanguageNet& net, GgufType type = GgufType::f32,
                 std::vector<std::string>* notes = nullptr) {
  std::vector<std::string> none;
  return GgufFile(gguf_bytes(net, "small", type, {}, notes ? *notes : none));
}

std::vector<float> values_of(const LanguageNet& net, const std::string& name) {
  for (const NamedTensor& p : net.parameters())
    if (p.name == name) {
      const auto all = p.tensor.span<float>();
      return {all.begin(), all.end()};
    }
  ADD_FAILURE() << "no " << name;
  return {};
}

// The head's row that llama.cpp turns with its neighbour, back where Hugging Face has it.
std::vector<float> halves_of(const GgufFile::Tensor& t, i64 head_size) {
  const auto rows = t.shape[0];
  const auto row = static_cast<i64>(t.values.size()) / rows;
  std::vector<float> out(t.values.size());
  for (i64 r = 0; r < rows; ++r) {
    const i64 head = r / head_size, i = r % head_size;
    const i64 to = head * head_size + i % 2 * (head_size / 2) + i / 2;
    std::copy_n(t.values.begin() + r * row, row, out.begin() + to * row);
  }
  return out;
}

TEST(Gguf, OfALlamaHasLlamaCppsNamesKeysAndRows) {
  const auto net = model_of(small());
  const GgufFile file = file_of(*net);
  EXPECT_EQ(file.version, 3u);
  EXPECT_EQ(file.texts.at("general.architecture"), "llama");
  EXPECT_EQ(file.texts.at("general.name"), "small");
  for (const auto& [key, value] :
       std::map<std::string, double>{{"llama.context_length", 64},
                                     {"llama.embedding_length", 32},
                                     {"llama.feed_forward_length", 48},
                                     {"llama.block_count", 2},
                                     {"llama.attention.head_count", 4},
                                     {"llama.attention.head_count_kv", 2},
                                     {"llama.attention.key_length", 8},
                                     {"llama.rope.dimension_count", 8},
                                     {"llama.rope.freq_base", 10000},
                                     {"llama.vocab_size", 40},
                                     {"general.file_type", 0}})
    EXPECT_EQ(file.numbers.at(key), value) << key;
  EXPECT_FLOAT_EQ(static_cast<float>(file.numbers.at("llama.attention.layer_norm_rms_epsilon")),
                  1e-5f);
  EXPECT_EQ(file.tensors.size(), net->parameters().size());
  EXPECT_THAT(file.tensors.at("blk.1.ffn_down.weight").shape, ElementsAre(32, 48));
  for (const auto& [theirs, ours] :
       {std::pair{"token_embd.weight", "embed_tokens.weight"},
        {"output_norm.weight", "norm.weight"},
        {"output.weight", "lm_head.weight"},
        {"blk.1.attn_norm.weight", "layers.1.input_layernorm.weight"},
        {"blk.0.ffn_norm.weight", "layers.0.post_attention_layernorm.weight"},
        {"blk.1.attn_v.weight", "layers.1.self_attn.v_proj.weight"},
        {"blk.0.attn_output.weight", "layers.0.self_attn.o_proj.weight"},
        {"blk.1.ffn_gate.weight", "layers.1.mlp.gate_proj.weight"},
        {"blk.1.ffn_up.weight", "layers.1.mlp.up_proj.weight"},
        {"blk.1.ffn_down.weight", "layers.1.mlp.down_proj.weight"}})
    EXPECT_EQ(file.tensors.at(theirs).values, values_of(*net, ours)) << theirs;
  for (const char* which : {"q", "k"}) {
    const auto& theirs = file.tensors.at(std::string("blk.1.attn_") + which + ".weight");
    const auto ours = values_of(*net, std::string("layers.1.self_attn.") + which + "_proj.weight");
    EXPECT_EQ(halves_of(theirs, 8), ours) << which;
    EXPECT_NE(theirs.values, ours) << "it turns neighbours";
  }
}

TEST(Gguf, OfQwenKeepsItsRowsAndHasItsNormsAndBiases) {
  const auto qwen2 = model_of(small("qwen2")), qwen3 = model_of(small("qwen3"));
  const GgufFile two = file_of(*qwen2), three = file_of(*qwen3);
  EXPECT_EQ(two.texts.at("general.architecture"), "qwen2");
  EXPECT_EQ(three.texts.at("general.architecture"), "qwen3");
  EXPECT_EQ(two.numbers.at("qwen2.attention.head_count_kv"), 2);
  EXPECT_EQ(two.tensors.at("blk.0.attn_q.weight").values,
            values_of(*qwen2, "layers.0.self_attn.q_proj.weight"));
  EXPECT_EQ(two.tensors.at("blk.0.attn_k.bias").values,
            values_of(*qwen2, "layers.0.self_attn.k_proj.bias"));
  EXPECT_EQ(three.tensors.at("blk.1.attn_k_norm.weight").values,
            values_of(*qwen3, "layers.1.self_attn.k_norm.weight"));
}

TEST(Gguf, OfBiasesOfALlamaTurnsThoseOfQAndK) {
  LlamaOptions o = small();
  o.qkv_bias = o.out_bias = o.mlp_bias = true;
  const auto net = model_of(o);
  const GgufFile file = file_of(*net);
  const auto& q = file.tensors.at("blk.0.attn_q.bias");
  EXPECT_EQ(halves_of(q, 8), values_of(*net, "layers.0.self_attn.q_proj.bias"));
  EXPECT_EQ(file.tensors.at("blk.0.attn_v.bias").values,
            values_of(*net, "layers.0.self_attn.v_proj.bias"));
}

TEST(Gguf, OfScaledPositionsSaysHow) {
  LlamaOptions o = small();
  o.scaling = {.type = "llama3", .factor = 8, .low = 1, .high = 4, .old_positions = 64};
  const GgufFile three = file_of(*model_of(o));
  const auto& divisors = three.tensors.at("rope_freqs.weight");
  EXPECT_THAT(divisors.shape, ElementsAre(4));
  EXPECT_FLOAT_EQ(divisors.values.front(), 1) << "short waves stay";
  EXPECT_FLOAT_EQ(divisors.values.back(), 8) << "long waves are divided";
  o.scaling = {.type = "linear", .factor = 4};
  const GgufFile linear = file_of(*model_of(o));
  EXPECT_EQ(linear.texts.at("llama.rope.scaling.type"), "linear");
  EXPECT_EQ(linear.numbers.at("llama.rope.scaling.factor"), 4);
  EXPECT_FALSE(linear.tensors.contains("rope_freqs.weight"));
}

TEST(Gguf, OfAGpt2WritesTheBiasesThatItLacks) {
  const Gpt2Options o{.layers = 2,
                      .width = 32,
                      .heads = 2,
                      .positions = 16,
                      .vocabulary = 40,
                      .bias = false,
                      .gelu = "tanh"};
  const auto net = model_of(o);
  const GgufFile file = file_of(*net);
  EXPECT_EQ(file.texts.at("general.architecture"), "gpt2");
  EXPECT_EQ(file.numbers.at("gpt2.feed_forward_length"), 128);
  EXPECT_EQ(file.tensors.at("blk.1.attn_qkv.weight").values,
            values_of(*net, "h.1.attn.c_attn.weight"));
  EXPECT_EQ(file.tensors.at("position_embd.weight").values, values_of(*net, "wpe.weight"));
  EXPECT_EQ(file.tensors.at("blk.1.ffn_up.bias").values, std::vector<float>(128, 0.f));
  EXPECT_TRUE(file.tensors.contains("output_norm.bias"));
  EXPECT_FALSE(file.tensors.contains("token_embd.bias"));
  EXPECT_FALSE(file.tensors.contains("output.weight")) << "it is the table";
}

TEST(Gguf, OfFewerBitsIsRounded) {
  const auto net = model_of(small());
  const std::vector<float> exact = values_of(*net, "layers.0.mlp.up_proj.weight");
  for (const auto type : {GgufType::f16, GgufType::bf16, GgufType::q8_0}) {
    std::vector<std::string> notes;
    const GgufFile file = file_of(*net, type, &notes);
    EXPECT_EQ(file.tensors.at("blk.0.attn_norm.weight").type, 0u) << "vectors stay";
    const auto& rounded = file.tensors.at("blk.0.ffn_up.weight");
    ASSERT_EQ(rounded.values.size(), exact.size());
    float largest = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (i % 32 == 0)
        largest = *std::max_element(exact.begin() + static_cast<std::ptrdiff_t>(i),
                                    exact.begin() + static_cast<std::ptrdiff_t>(i) + 32,
                                    [](float a, float b) { return std::abs(a) < std::abs(b); });
      if (type == GgufType::f16) EXPECT_EQ(rounded.values[i], static_cast<float>(f16(exact[i])));
      if (type == GgufType::bf16) EXPECT_EQ(rounded.values[i], static_cast<float>(bf16(exact[i])));
      if (type == GgufType::q8_0)  // half a step, and the rounding of the scale, 2^-11 of it
        EXPECT_NEAR(rounded.values[i], exact[i], std::abs(largest) * (0.5f / 127 + 6e-4f));
    }
    const auto& down = file.tensors.at("blk.0.ffn_down.weight");  // its rows have 48 numbers
    EXPECT_EQ(down.type, type == GgufType::q8_0 ? 1u : type == GgufType::bf16 ? 30u : 1u);
    EXPECT_EQ(notes.empty(), type != GgufType::q8_0);
  }
}

TEST(Gguf, ARowOfZerosIsZero) {
  const auto net = model_of(small());
  for (const NamedTensor& p : net->parameters())
    if (p.name == "layers.0.mlp.up_proj.weight") Tensor(p.tensor).fill(0);
  EXPECT_EQ(file_of(*net, GgufType::q8_0).tensors.at("blk.0.ffn_up.weight").values,
            std::vector<float>(48 * 32, 0.f));
}

TEST(Gguf, AWindowShortensTheContextAndSaysSo) {
  LlamaOptions o = small("mistral");
  o.window = 7;
  std::vector<std::string> notes;
  const GgufFile file = file_of(*model_of(o), GgufType::f32, &notes);
  EXPECT_EQ(file.texts.at("general.architecture"), "llama");
  EXPECT_EQ(file.numbers.at("llama.context_length"), 7);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("no window"));
}

TEST(Gguf, RefusesWhatItCannotSay) {
  const auto refusal = [](const LanguageOptions& o) {
    return error_of<ConfigError>([&] { file_of(*model_of(o)); });
  };
  EXPECT_THAT(
      refusal(Gpt2Options{.layers = 1, .width = 32, .heads = 2, .vocabulary = 9, .gelu = "erf"}),
      HasSubstr("by tanh"));
  LlamaOptions scaled = small("qwen2");
  scaled.scaling = {.type = "llama3", .factor = 8, .low = 1, .high = 4, .old_positions = 64};
  EXPECT_THAT(refusal(scaled), HasSubstr("architecture llama only"));
  LlamaOptions biased = small("qwen3");
  biased.qkv_bias = biased.out_bias = true;
  EXPECT_THAT(refusal(biased), HasSubstr("qwen3 has no biases"));
  const auto net = model_of(small());
  net->parameters()[0].tensor.as<float>()[0] = 7e4f;
  EXPECT_THAT(error_of<IoError>([&] { file_of(*net, GgufType::f16); }), HasSubstr("f16"));
  EXPECT_FLOAT_EQ(file_of(*net, GgufType::bf16).tensors.at("token_embd.weight").values[0], 70144.f);
  EXPECT_THAT(error_of<ConfigError>([] { gguf_type("--dtype", "q4_0"); }),
              HasSubstr("f32, f16, bf16 or q8_0"));
}

}  // namespace
}  // namespace gossamer::models
