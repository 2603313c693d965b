// config.json of LLaMA's kind of model: see llama_file.h.
#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/models/llama_file.h"

namespace gossamer::models {
namespace {

using Json = nlohmann::json;

struct Type {
  const char *name, *architecture;
};
constexpr Type kTypes[]{{"llama", "LlamaForCausalLM"},
                        {"mistral", "MistralForCausalLM"},
                        {"qwen2", "Qwen2ForCausalLM"},
                        {"qwen3", "Qwen3ForCausalLM"}};

// A JSON object whose keys are read one by one. null counts as absent.
class Keys {
 public:
  Keys(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  const Json* find(const char* key) const {
    const auto at = json_.find(key);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }
  template <class... Args>
  [[noreturn]] void refuse(const char* key, const Args&... args) const {
    fail<IoError>(where_, ": ", key, " is ", shown(*find(key)), args...);
  }
  std::string text(const char* key, const char* usual) const {
    const Json* value = find(key);
    if (!value) return usual;
    if (!value->is_string()) refuse(key, "; wanted a text");
    return value->get<std::string>();
  }
  bool flag(const char* key, bool usual = false) const {
    const Json* value = find(key);
    if (!value) return usual;
    if (!value->is_boolean()) refuse(key, "; wanted true or false");
    return value->get<bool>();
  }
  double number(const char* key, double usual) const {
    const Json* value = find(key);
    if (!value) return usual;
    if (!value->is_number()) refuse(key, "; wanted a number");
    return value->get<double>();
  }
  i64 count(const char* key, std::optional<i64> usual, i64 most = 1 << 24) const {
    const Json* value = find(key);
    if (!value) {
      check<IoError>(usual.has_value(), where_, ": has no ", key);
      return *usual;
    }
    if (!value->is_number_integer() || *value < 1 || *value > most)
      refuse(key, "; wanted a whole number from 1 to ", most);
    return value->get<i64>();
  }

 private:
  static std::string shown(const Json& value) {
    return value.is_primitive() ? printable(value.dump(), 60) : value.type_name();
  }
  const Json& json_;
  std::string where_;
};

void refuse_what_is_not_built(const Keys& config) {
  if (config.text("hidden_act", "silu") != "silu")
    config.refuse("hidden_act", "; only silu is known");
  for (const char* key : {"quantization_config", "auto_map", "num_local_experts", "num_experts"})
    if (config.find(key)) config.refuse(key, "; such models cannot be read");
  if (config.number("partial_rotary_factor", 1) != 1)
    config.refuse("partial_rotary_factor", "; only 1 is known");
}

// Both spellings: rope_theta and rope_scaling, or since version 5 rope_parameters.
void read_rope(const Keys& config, const std::string& file, LlamaOptions& o) {
  const char* key = "rope_scaling";
  const Json* object = config.find(key);
  if (!object) object = config.find(key = "rope_parameters");
  if (object && !object->is_object()) config.refuse(key, "; wanted an object");
  const Json none = Json::object();
  const Keys rope(object ? *object : none, file + ": " + key);
  o.theta = rope.number("rope_theta", config.number("rope_theta", 10000));
  RopeScaling& s = o.scaling;
  const char* type = rope.find("rope_type") ? "rope_type" : "type";
  s.type = rope.text(type, "default");
  if (s.type != "default" && s.type != "linear" && s.type != "llama3")
    rope.refuse(type, "; known are default, linear and llama3");
  if (rope.number("partial_rotary_factor", 1) != 1)
    rope.refuse("partial_rotary_factor", "; only 1 is known");
  if (s.type == "default") return;
  const auto positive = [&](const char* name) {
    check<IoError>(rope.find(name) != nullptr, file, ": ", key, " has no ", name);
    const double value = rope.number(name, 0);
    if (!(value > 0)) rope.refuse(name, "; it must be positive");
    return value;
  };
  s.factor = positive("factor");
  if (s.type != "llama3") return;
  s.low = positive("low_freq_factor");
  s.high = positive("high_freq_factor");
  if (s.high <= s.low) rope.refuse("high_freq_factor", "; it must be above low_freq_factor");
  s.old_positions = rope.count("original_max_position_embeddings",
                               config.count("original_max_position_embeddings", o.positions));
}

// layer_types, if it is there, says which layers have the window.
void read_windows(const Keys& config, LlamaOptions& o) {
  const bool mistral = o.type == "mistral",
             used = mistral || (o.type != "llama" && config.flag("use_sliding_window"));
  if (used && config.find("sliding_window")) o.window = config.count("sliding_window", {});
  if (!mistral) {
    const double from = config.number("max_window_layers", 28);
    if (!(from >= 0 && from <= 4096)) config.refuse("max_window_layers", "; wanted 0 to 4096");
    o.windowed_from = static_cast<i64>(from);
  }
  const Json* types = config.find("layer_types");
  if (types) {
    if (!types->is_array() || static_cast<i64>(types->size()) != o.layers)
      config.refuse("layer_types", "; wanted a list of ", o.layers, " words");
    i64 from = o.layers;
    for (i64 i = o.layers - 1; i >= 0; --i) {
      const Json& word = (*types)[static_cast<std::size_t>(i)];
      if (word != "full_attention" && word != "sliding_attention")
        config.refuse("layer_types", " with ", printable(word.dump(), 60),
                      "; known are full_attention and sliding_attention");
      if (word != "sliding_attention") continue;
      if (from != i + 1)
        config.refuse("layer_types", "; sliding_attention must be that of the last layers");
      from = i;
    }
    if (from < o.layers && o.window == 0)
      config.refuse("layer_types", " with sliding_attention, but there is no sliding_window");
    o.windowed_from = from;
  }
  if (o.window == 0 || o.windowed_from >= o.layers) o.window = o.windowed_from = 0;
}

}  // namespace

bool is_llama_type(std::string_view type) {
  return std::ranges::any_of(kTypes, [&](const Type& t) { return t.name == type; });
}

LlamaOptions read_llama_config(std::string_view text, const std::string& file) {
  const auto json = parse_json<Json>(text);
  check<IoError>(json.is_object(), file, ": is no JSON object");
  const Keys config(json, file);
  LlamaOptions o;
  o.type = config.text("model_type", "");
  check<IoError>(is_llama_type(o.type), file, ": model_type is \"", printable(o.type, 60),
                 "\"; known are llama, mistral, qwen2 and qwen3");
  refuse_what_is_not_built(config);
  o.layers = config.count("num_hidden_layers", {}, 4096);
  o.width = config.count("hidden_size", {});
  o.heads = config.count("num_attention_heads", {}, 1 << 16);
  o.kv_heads = config.count("num_key_value_heads", o.heads, 1 << 16);
  if (o.heads % o.kv_heads != 0)
    config.refuse("num_key_value_heads", "; it must divide num_attention_heads, ", o.heads);
  if (config.find("head_dim") || o.type == "qwen3") {
    o.head_size = config.count("head_dim", 128, 1 << 16);
  } else {
    if (o.width % o.heads != 0)
      config.refuse("hidden_size",
                    ", no multiple of num_attention_heads, and there is no head_dim");
    o.head_size = o.width / o.heads;
  }
  if (o.head_size % 2 != 0)
    config.refuse(config.find("head_dim") ? "head_dim" : "hidden_size", ", so a head has ",
                  o.head_size, " numbers; it must be even");
  o.ff = config.count("intermediate_size", {});
  o.positions = config.count("max_position_embeddings", 2048, i64{1} << 30);
  o.vocabulary = config.count("vocab_size", {}, 1 << 30);
  o.eps = static_cast<float>(config.number("rms_norm_eps", 1e-6));
  if (!(o.eps > 0)) config.refuse("rms_norm_eps", "; it must be positive");
  o.tied = config.flag("tie_word_embeddings");
  const bool attention_bias = o.type != "mistral" && config.flag("attention_bias");
  o.qkv_bias = o.type == "qwen2" || attention_bias;
  o.out_bias = o.type != "qwen2" && attention_bias;
  o.mlp_bias = o.type == "llama" && config.flag("mlp_bias");
  o.head_norms = o.type == "qwen3";
  read_rope(config, file, o);
  if (!(o.theta > 0)) fail<IoError>(file, ": rope_theta is ", o.theta, "; it must be positive");
  read_windows(config, o);
  return o;
}

const char* torch_name(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
}

std::string llama_config(const LlamaOptions& o, std::int32_t end, std::int32_t begin, DType dtype) {
  check<ConfigError>(is_llama_type(o.type), "llama: type \"", o.type, "\" is none of theirs");
  const auto only = [&](bool has, const char* what, std::initializer_list<const char*> types) {
    check<ConfigError>(
        !has || std::ranges::any_of(types, [&](const char* t) { return o.type == t; }),
        "llama: a model of type ", o.type, " cannot have ", what,
        "; Hugging Face's library would not read it");
  };
  const bool qwen2 = o.type == "qwen2";
  only(o.head_norms, "norms of heads", {"qwen3"});
  only(!o.head_norms, "heads without norms", {"llama", "mistral", "qwen2"});
  only(o.qkv_bias, "biases of q, k and v", {"llama", "qwen2", "qwen3"});
  only(o.mlp_bias, "biases of its MLP", {"llama"});
  only(o.window > 0, "a window", {"mistral", "qwen2", "qwen3"});
  only(o.windowed_from > 0, "a window in some layers", {"qwen2", "qwen3"});
  check<ConfigError>(qwen2 ? o.qkv_bias && !o.out_bias : o.qkv_bias == o.out_bias,
                     "llama: a model of type ", o.type, " has biases of ",
                     qwen2 ? "q, k and v, and not of o" : "q, k, v and o, or none");
  check<ConfigError>(o.type != "llama" || o.width % o.heads == 0, "llama: a width of ", o.width,
                     " is no multiple of its ", o.heads,
                     " heads, which Hugging Face's library demands of type llama");
  JsonObject out;
  const auto* type = std::ranges::find_if(kTypes, [&](const Type& t) { return t.name == o.type; });
  out.add("architectures", std::vector<std::string>{type->architecture})
      .add("model_type", o.type)
      .add("hidden_act", "silu")
      .add("num_hidden_layers", o.layers)
      .add("hidden_size", o.width)
      .add("num_attention_heads", o.heads)
      .add("num_key_value_heads", o.kv_heads)
      .add("head_dim", o.head_size)
      .add("intermediate_size", o.ff)
      .add("max_position_embeddings", o.positions)
      .add("vocab_size", o.vocabulary)
      .add("rms_norm_eps", o.eps)
      .add("tie_word_embeddings", o.tied)
      .add("initializer_range", 0.02)
      .add("attention_dropout", 0.0)
      .add("rope_theta", o.theta);
  if (o.type == "llama" || o.type == "qwen3") out.add("attention_bias", o.qkv_bias);
  if (o.type == "llama") out.add("mlp_bias", o.mlp_bias);
  if (o.type != "llama") out.raw("sliding_window", o.window > 0 ? json_text(o.window) : "null");
  if (qwen2 || o.type == "qwen3") {
    out.add("use_sliding_window", o.window > 0);
    out.add("max_window_layers", o.window > 0 ? o.windowed_from : o.layers);
  }
  const RopeScaling& s = o.scaling;
  JsonObject scaling;
  scaling.add("rope_type", s.type).add("factor", s.factor);
  if (s.type == "llama3")
    scaling.add("low_freq_factor", s.low)
        .add("high_freq_factor", s.high)
        .add("original_max_position_embeddings", s.old_positions);
  out.raw("rope_scaling", s.type == "default" ? "null" : scaling.str());
  out.add("torch_dtype", torch_name(dtype));
  const auto id = [](std::int32_t mark) { return mark >= 0 ? std::to_string(mark) : "null"; };
  out.raw("bos_token_id", id(begin >= 0 ? begin : end)).raw("eos_token_id", id(end));
  return out.str() + "\n";
}

}  // namespace gossamer::models
