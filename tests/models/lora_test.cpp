// Adapters of low rank against Hugging Face's PEFT (golden/llama/llama-lora, made by peft 0.21 in
// f64): logits, loss, the gradients of A and B, a merged weight, its files.
#include "gossamer/nn/lora.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/models/llama_file.h"
#include "gossamer/models/lora_file.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/layers.h"
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
double apart(const Tensor& a, const Tensor& b) {
  check(a.shape() == b.shape(), "apart: ", a.shape(), " and ", b.shape());
  double most = 0;
  for (std::size_t i = 0; i < a.span<float>().size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a.span<float>()[i]) -
                                   static_cast<double>(b.span<float>()[i])));
  return most;
}

class Lora : public ::testing::Test {
 protected:
  Tensor value(const std::string& key) const {
    const Tensor* t = values.find(key);
    check(t != nullptr, "golden values: no ", key);
    return *t;
  }
  Llama base() const {
    const nn::NoInitialValues none;
    Llama out(read_llama_config(text_of(golden_llama("llama/config.json")), "config.json"));
    load_llama(llama_weights(nn::read_weights(golden_llama("llama/model.safetensors"))), out);
    return out;
  }
  Llama adapted() const {
    Llama out = base();
    out.adapt(config.options);
    load_adapter(read_adapter(golden_llama("llama-lora")), out);
    return out;
  }
  // A FlatParams of what is trained.
  static FlatParams trained(Llama& model, DType type = DType::f32) {
    auto parts = model.parts();
    return FlatParams(parts.parameters, parts.buffers, {.compute = type}, parts.frozen);
  }

  const SafeTensors values = read_safetensors(golden_llama("llama-lora/golden.safetensors"));
  const Tensor ids = *read_safetensors(golden_llama("llama/golden.safetensors")).find("input_ids");
  const AdapterConfig config = read_adapter_config(
      text_of(golden_llama("llama-lora/adapter_config.json")), "adapter_config.json");
};

Tensor next_ids(const Tensor& ids) {
  Tensor out = Tensor::full(ids.shape(), -1, DType::i32);
  for (i64 i = 0; i + 1 < ids.numel(); ++i)
    if (i % ids.shape(1) + 1 < ids.shape(1))
      out.as<std::int32_t>()[i] = ids.as<std::int32_t>()[i + 1];
  return out;
}

TEST_F(Lora, LogitsLossAndTheGradientsOfAAndBEqualPeft) {
  EXPECT_EQ(config.options.rank, 4);
  EXPECT_EQ(config.options.scale(), 2);
  EXPECT_EQ(config.base, "llama");
  for (const std::string& form : backend_names()) {
    SCOPED_TRACE(form);
    const UseBackend use(form);
    Llama model = adapted();
    FlatParams params = trained(model);
    {
      const NoGrad off;
      EXPECT_LE(apart(model(ids), value("logits")), 3e-5);
    }
    const Tensor loss = model.loss(ids, next_ids(ids));
    EXPECT_NEAR(loss.item(), value("loss").item(), 1e-5);
    params.zero_grad();
    params.backward(loss);
    params.settle_grads();
    std::size_t compared = 0;
    for (const NamedTensor& grad : params.windows(params.grads())) {
      const Tensor want = value("grad.base_model.model.model." + grad.name);
      double most = 0;
      for (const float v : want.span<float>()) most = std::max(most, std::abs(double{v}));
      EXPECT_LE(apart(grad.tensor, want), 1e-4 * std::max(most, 1e-3)) << grad.name;
      ++compared;
    }
    EXPECT_EQ(compared, 8u) << "A and B of two layers' q and v, and nothing else";
  }
}

TEST_F(Lora, OnlyAAndBAreValuesThatWorkersExchange) {
  Llama model = adapted();
  const FlatParams params = trained(model);
  EXPECT_EQ(params.parameter_count(), 2 * (4 * 24 + 32 * 4 + 4 * 24 + 16 * 4));
  EXPECT_EQ(static_cast<i64>(params.frozen().size()), static_cast<i64>(base().parameters().size()));
}

TEST_F(Lora, MergedItIsAPlainModelWithTheSameLogits) {
  const NoGrad off;
  Llama model = adapted(), plain = base();
  const nn::Weights merged{.file = "merged",
                           .tensors = llama_tensors(model, nullptr),
                           .unread = {},
                           .metadata = {},
                           .notes = {}};
  for (const NamedTensor& t : merged.tensors)
    if (t.name == "model.layers.0.self_attn.q_proj.weight")
      EXPECT_LE(apart(t.tensor, value("merged." + t.name)), 1e-6);
  load_llama(llama_weights(merged), plain);
  EXPECT_LE(apart(plain(ids), value("logits")), 3e-5);
  nn::Weights file = nn::read_weights(golden_llama("llama/model.safetensors"));
  merge_adapter(golden_llama("llama-lora"), file);
  Llama again = base();
  load_llama(llama_weights(file), again);
  EXPECT_EQ(apart(again(ids), plain(ids)), 0);
}

TEST_F(Lora, BeginsAsTheModelThatItChanges) {
  const NoGrad off;
  for (const DType type : {DType::f32, DType::bf16}) {
    Llama plain = base(), model = base();
    nn::LoraOptions all{.rank = 3};
    all.targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
    model.adapt(all);
    const FlatParams params = trained(model, type), others = trained(plain, type);
    EXPECT_EQ(apart(model(ids).to(DType::f32), plain(ids).to(DType::f32)), 0);
    EXPECT_EQ(params.windows(params.values()).size(), 2u * 7 * 2);
  }
}

TEST_F(Lora, ItsFilesReadBack) {
  const fs::path folder = fs::temp_directory_path() / ("gossamer-lora-" + std::to_string(getpid()));
  Llama model = adapted();
  const FlatParams params = trained(model);
  save_adapter(folder, model, &params, "llama");
  const AdapterConfig read =
      read_adapter_config(text_of(folder / "adapter_config.json"), "adapter_config.json");
  EXPECT_EQ(read.options, config.options);
  EXPECT_EQ(read.base, "llama");
  const SafeTensors ours = read_safetensors(folder / "adapter_model.safetensors"),
                    theirs = read_safetensors(golden_llama("llama-lora/adapter_model.safetensors"));
  EXPECT_EQ(ours.tensors.size(), theirs.tensors.size());
  for (const NamedTensor& t : theirs.tensors) {
    const Tensor* same = ours.find(t.name);
    ASSERT_NE(same, nullptr) << t.name;
    EXPECT_EQ(apart(*same, t.tensor), 0) << t.name;
  }
  fs::remove_all(folder);
}

TEST_F(Lora, WhatIsNotBuiltIsRefusedByItsKey) {
  const std::string text = text_of(golden_llama("llama-lora/adapter_config.json"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const auto at = other.find(from);
    check(at != other.npos, "no ", from);
    return error_of<IoError>(
        [&] { read_adapter_config(other.replace(at, from.size(), to), "adapter_config.json"); });
  };
  EXPECT_THAT(with("\"use_dora\": false", "\"use_dora\": true"), HasSubstr("use_dora"));
  EXPECT_THAT(with("\"bias\": \"none\"", "\"bias\": \"all\""), HasSubstr("bias"));
  EXPECT_THAT(with("\"LORA\"", "\"IA3\""), HasSubstr("peft_type"));
  EXPECT_THAT(with("\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 8}"),
              HasSubstr("rank_pattern"));
  EXPECT_THAT(with("\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]"),
              HasSubstr("modules_to_save"));
  EXPECT_THAT(with("\"v_proj\"", "\"lm_head\""), HasSubstr("target_modules"));
  EXPECT_THAT(with("\"r\": 4", "\"r\": 0"), HasSubstr("r is 0"));
  EXPECT_THAT(with("\"lora_alpha\": 8,", ""), HasSubstr("lora_alpha is null"));
  EXPECT_THAT(error_of<ConfigError>([&] {
                Llama model = base();
                model.adapt({.rank = 2, .targets = {"c_attn"}});
              }),
              HasSubstr("c_attn is no layer to adapt; known are"));
}

TEST_F(Lora, HalvesOfAdaptersAreErrors) {
  Llama model = adapted();
  std::vector<NamedTensor> tensors = model.parameters();
  std::erase_if(tensors, [](const NamedTensor& t) {
    return t.name == "layers.1.self_attn.v_proj.lora_B.weight";
  });
  EXPECT_THAT(error_of<IoError>([&] { nn::merged_lora(tensors, 1, "x.safetensors"); }),
              HasSubstr("x.safetensors: has no layers.1.self_attn.v_proj.lora_B.weight"));
}

}  // namespace
}  // namespace gossamer::models
