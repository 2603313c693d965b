// Files of LLaMA's kind of model: config.json in its spellings and what it refuses, one file or
// several, and what Hugging Face's library finds in those that are written here.
#include "gossamer/models/llama_file.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/models/language_file.h"
#include "gossamer/nn/init.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace gossamer::models {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
fs::path golden(const std::string& name) {
  return fs::path(GOSSAMER_SOURCE_DIR "/tests/golden/llama") / name;
}
Json small() {
  return {{"model_type", "llama"},        {"hidden_size", 24},       {"num_hidden_layers", 2},
          {"num_attention_heads", 4},     {"intermediate_size", 32}, {"vocab_size", 64},
          {"max_position_embeddings", 99}};
}
LlamaOptions read(const Json& json) { return read_llama_config(json.dump(), "config.json"); }
std::string refusal(const char* key, const Json& value) {
  Json json = small();
  json[key] = value;
  return error_of<IoError>([&] { read(json); });
}

TEST(LlamaConfig, OfEachFamilySaysItsOptions) {
  const auto of = [](const char* name) {
    return read_llama_config(text_of(golden(name) / "config.json"), name);
  };
  const LlamaOptions llama = of("llama"), tied = of("llama-tied"), bias = of("llama-bias"),
                     mistral = of("mistral"), qwen2 = of("qwen2"), qwen3 = of("qwen3"),
                     llama3 = of("llama3");
  EXPECT_EQ(llama.head_size, 8);
  EXPECT_EQ(llama.kv_heads, 2);
  EXPECT_FLOAT_EQ(llama.eps, 1e-5f);
  EXPECT_FALSE(llama.tied);
  EXPECT_TRUE(tied.tied);
  EXPECT_EQ(tied.head_size, 6);  // neither head_dim nor num_key_value_heads is there
  EXPECT_EQ(tied.kv_heads, 4);
  EXPECT_TRUE(bias.qkv_bias && bias.out_bias && bias.mlp_bias);
  EXPECT_EQ(mistral.window_of(0), 6);
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.out_bias && qwen2.tied);
  EXPECT_EQ(qwen2.window, 0);
  EXPECT_EQ(qwen2.theta, 1e6);
  EXPECT_TRUE(qwen3.head_norms);
  EXPECT_EQ(llama3.scaling, (RopeScaling{"llama3", 8, 1, 4, 128}));
}

TEST(LlamaConfig, HasDefaultsWhereAKeyIsAbsentOrNull) {
  Json json = small();
  EXPECT_EQ(read(json).kv_heads, 4);
  EXPECT_FLOAT_EQ(read(json).eps, 1e-6f);
  EXPECT_EQ(read(json).theta, 10000);
  json["head_dim"] = nullptr;
  EXPECT_EQ(read(json).head_size, 6);
  json["model_type"] = "qwen3";
  EXPECT_EQ(read(json).head_size, 128);
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  EXPECT_EQ(read(json).scaling.factor, 2);
  json.erase("rope_scaling");
  json["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 4}, {"rope_theta", 500}};
  EXPECT_EQ(read(json).scaling.factor, 4);
  EXPECT_EQ(read(json).theta, 500);
}

TEST(LlamaConfig, SaysWhichLayersHaveAWindow) {
  Json json = small();
  json["model_type"] = "qwen2";
  json["sliding_window"] = 16;
  EXPECT_EQ(read(json).window, 0);
  json["use_sliding_window"] = true;
  json["max_window_layers"] = 1;
  EXPECT_EQ(read(json).window_of(0), 0);
  EXPECT_EQ(read(json).window_of(1), 16);
  json["layer_types"] = {"sliding_attention", "sliding_attention"};  // it decides
  EXPECT_EQ(read(json).window_of(0), 16);
  json["layer_types"] = {"sliding_attention", "full_attention"};
  EXPECT_THAT(error_of<IoError>([&] { read(json); }), HasSubstr("layer_types"));
}

TEST(LlamaConfig, RefusesByItsKeyWhatIsNotBuilt) {
  EXPECT_THAT(refusal("model_type", "gemma"), AllOf(HasSubstr("model_type"), HasSubstr("gemma")));
  EXPECT_THAT(refusal("hidden_act", "gelu"), HasSubstr("hidden_act is \"gelu\""));
  for (const char* type : {"dynamic", "yarn", "longrope", "su"})
    EXPECT_THAT(refusal("rope_scaling", {{"rope_type", type}, {"factor", 2}}),
                AllOf(HasSubstr("rope_scaling: rope_type"), HasSubstr(type)));
  EXPECT_THAT(refusal("rope_scaling", {{"type", "linear"}}), HasSubstr("has no factor"));
  EXPECT_THAT(refusal("partial_rotary_factor", 0.5), HasSubstr("partial_rotary_factor is 0.5"));
  EXPECT_THAT(refusal("quantization_config", {{"bits", 4}}), HasSubstr("quantization_config"));
  EXPECT_THAT(refusal("auto_map", {{"AutoModel", "x.Y"}}), HasSubstr("auto_map"));
  EXPECT_THAT(refusal("num_local_experts", 8), HasSubstr("num_local_experts is 8"));
  EXPECT_THAT(refusal("num_experts", 8), HasSubstr("num_experts"));
  EXPECT_THAT(refusal("layer_types", {"full_attention", "chunked_attention"}),
              AllOf(HasSubstr("layer_types"), HasSubstr("chunked_attention")));
}

TEST(LlamaConfig, NamesAKeyWhoseValueIsNotPossible) {
  EXPECT_THAT(refusal("num_hidden_layers", -1), HasSubstr("num_hidden_layers is -1"));
  EXPECT_THAT(refusal("vocab_size", "many"), HasSubstr("vocab_size is \"many\""));
  EXPECT_THAT(refusal("num_key_value_heads", 3), HasSubstr("must divide num_attention_heads"));
  EXPECT_THAT(refusal("head_dim", 7), HasSubstr("must be even"));
  EXPECT_THAT(refusal("rms_norm_eps", 0), HasSubstr("rms_norm_eps"));
  Json json = small();
  json.erase("hidden_size");
  EXPECT_THAT(error_of<IoError>([&] { read(json); }), HasSubstr("has no hidden_size"));
  EXPECT_THAT(error_of<IoError>([] { read_llama_config("[1", "config.json"); }),
              HasSubstr("is no JSON object"));
}

TEST(LlamaConfig, IsReadBackAsItWasWritten) {
  for (const char* name :
       {"llama", "llama3", "llama-tied", "llama-bias", "mistral", "qwen2", "qwen3"}) {
    const LlamaOptions o = read_llama_config(text_of(golden(name) / "config.json"), name);
    EXPECT_EQ(read_llama_config(llama_config(o, 2), name), o) << name;
    const Json json = Json::parse(llama_config(o, 2));
    EXPECT_EQ(json["eos_token_id"], 2);
    EXPECT_TRUE(json.contains("rope_theta"));  // which version 4 of the library knows, too
  }
  EXPECT_THAT(error_of<ConfigError>([] { llama_config({.window = 7}, -1); }),
              HasSubstr("type llama cannot have a window"));
}

class LlamaFile : public InTempFolder {
 protected:
  static Llama model_of(const char* name) {
    const nn::NoInitialValues none;
    Llama out(read_llama_config(text_of(golden(name) / "config.json"), name));
    load_llama(llama_weights(nn::read_weights(golden(name) / "model.safetensors")), out);
    return out;
  }
  static void expect_equal(const Llama& a, const Llama& b) {
    const auto one = a.parameters(), other = b.parameters();
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(one[i].tensor.span<float>(), other[i].tensor.span<float>()))
          << one[i].name;
  }
};

TEST_F(LlamaFile, HasHuggingFacesNamesAndReadsBack) {
  for (const char* name : {"llama", "llama-tied", "llama-bias", "mistral", "qwen2", "qwen3"}) {
    const Llama model = model_of(name);
    save_language(file("model.safetensors"), model, nullptr, metadata_of("tiny", model.options()));
    const SafeTensors ours = read_safetensors(file("model.safetensors")),
                      theirs = read_safetensors(golden(name) / "model.safetensors");
    EXPECT_EQ(ours.tensors.size(), theirs.tensors.size()) << name;
    for (const NamedTensor& t : theirs.tensors) {
      const Tensor* own = ours.find(t.name);
      ASSERT_NE(own, nullptr) << name << ": " << t.name;
      EXPECT_EQ(own->shape(), t.tensor.shape()) << t.name;
    }
    EXPECT_EQ(llama_in_header(ours.metadata, "x"), model.options());
    const nn::Weights again = llama_weights(nn::read_weights(file("model.safetensors")));
    EXPECT_TRUE(is_llama(again));
    Llama back(model.options());
    load_llama(again, back);
    expect_equal(model, back);
  }
}

TEST_F(LlamaFile, InSeveralFilesIsTheSame) {
  const Llama model = model_of("llama");
  save_language(file("model.safetensors"), model, nullptr, {}, {.most_bytes = 20000});
  EXPECT_FALSE(fs::exists(file("model.safetensors")));
  const fs::path index = file("model.safetensors.index.json");
  EXPECT_TRUE(fs::exists(file("model-00001-of-00003.safetensors")));
  Llama back(model.options());
  load_llama(llama_weights(nn::read_weights(index)), back);
  expect_equal(model, back);

  Json json = Json::parse(text_of(index));
  json["weight_map"]["model.norm.weight"] = "model-00001-of-00003.safetensors";
  write_file(index, json.dump());
  EXPECT_THAT(error_of<IoError>([&] { nn::read_weights(index); }),
              AllOf(HasSubstr("missing: model-00001-of-00003.safetensors: model.norm.weight"),
                    HasSubstr("not listed for their file: model-0000")));
  for (const char* name : {"../x.safetensors", "/etc/passwd", "a/b", "..", "", "a\\b"}) {
    json["weight_map"]["model.norm.weight"] = name;
    write_file(index, json.dump());
    EXPECT_THAT(error_of<IoError>([&] { nn::read_weights(index); }),
                HasSubstr("no name of a file in the same folder"))
        << name;
  }
  write_file(index, R"({"weight_map": [1]})");
  EXPECT_THAT(error_of<IoError>([&] { nn::read_weights(index); }), HasSubstr("weight_map"));
}

TEST_F(LlamaFile, ATiedHeadMustBeTheEmbedding) {
  const Llama model = model_of("llama-tied");
  nn::Weights weights = llama_weights(nn::read_weights(golden("llama-tied") / "model.safetensors"));
  weights.tensors.push_back({"lm_head.weight", weights.find("embed_tokens.weight")->clone()});
  weights.tensors.push_back({"layers.0.self_attn.rotary_emb.inv_freq", Tensor::zeros({3})});
  weights = llama_weights(std::move(weights));  // tables of rotary positions are left out
  Llama back(model.options());
  load_llama(weights, back);
  expect_equal(model, back);
  std::ranges::find(weights.tensors, "lm_head.weight", &NamedTensor::name)->tensor.fill(1);
  EXPECT_THAT(error_of<IoError>([&] { load_llama(weights, back); }),
              HasSubstr("lm_head.weight differs from embed_tokens.weight"));
}

TEST_F(LlamaFile, OfAnotherShapeThanItsConfigIsOneSentence) {
  const nn::Weights weights =
      llama_weights(nn::read_weights(golden("llama") / "model.safetensors"));
  const LlamaOptions right = model_of("llama").options();
  check_llama_fits(weights, right);
  LlamaOptions o = right;
  o.vocabulary = 1 << 30;
  EXPECT_THAT(error_of<IoError>([&] { check_llama_fits(weights, o); }), HasSubstr("vocab_size"));
  o = right, o.layers = 3;
  EXPECT_THAT(error_of<IoError>([&] { check_llama_fits(weights, o); }),
              HasSubstr("num_hidden_layers"));
  o = right, o.heads = 6;
  EXPECT_THAT(error_of<IoError>([&] { check_llama_fits(weights, o); }), HasSubstr("6 heads of 8"));
  o = right, o.ff = 48;
  EXPECT_THAT(error_of<IoError>([&] { check_llama_fits(weights, o); }),
              HasSubstr("intermediate_size"));
}

}  // namespace
}  // namespace gossamer::models
