// A file is a header, keys with values, the names and shapes of all tensors, and their bytes, each
// at a multiple of 32. Numbers are little-endian, and shapes have the fastest extent first.
#include "gossamer/models/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"

namespace gossamer::models {
namespace {

constexpr std::uint32_t kVersion = 3, kQuantizationVersion = 2;
constexpr std::size_t kAlignment = 32;
constexpr i64 kBlock = 32;  // numbers that share a scale

// A type of tensors: its number, and that of a whole file of it.
struct TypeInfo {
  const char* name;
  std::uint32_t tensor, file;
};
constexpr std::array<TypeInfo, 4> kTypes{
    {{"f32", 0, 0}, {"f16", 1, 1}, {"bf16", 30, 32}, {"q8_0", 8, 7}}};
const TypeInfo& info(GgufType type) { return kTypes[static_cast<std::size_t>(type)]; }

template <class T>
void put(std::string& to, T value) {
  static_assert(std::endian::native == std::endian::little);
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& to, std::string_view text) {
  put(to, static_cast<std::uint64_t>(text.size()));
  to += text;
}

// Values, with the numbers of their types.
void put_value(std::string& to, bool v) {
  put(to, std::uint32_t{7});
  put(to, static_cast<std::uint8_t>(v));
}
void put_value(std::string& to, std::uint32_t v) {
  put(to, std::uint32_t{4});
  put(to, v);
}
void put_value(std::string& to, float v) {
  put(to, std::uint32_t{6});
  put(to, v);
}
void put_value(std::string& to, const std::string& v) {
  put(to, std::uint32_t{8});
  put_text(to, v);
}
void begin_list(std::string& to, std::uint32_t type, std::size_t size) {
  put(to, std::uint32_t{9});
  put(to, type);
  put(to, static_cast<std::uint64_t>(size));
}
void put_value(std::string& to, const std::vector<std::string>& v) {
  begin_list(to, 8, v.size());
  for (const std::string& each : v) put_text(to, each);
}
void put_value(std::string& to, const std::vector<std::int32_t>& v) {
  begin_list(to, 5, v.size());
  for (const std::int32_t each : v) put(to, each);
}
void put_value(std::string& to, const std::vector<float>& v) {
  begin_list(to, 6, v.size());
  for (const float each : v) put(to, each);
}

template <class T>
void put_rounded(std::string& to, std::span<const float> values) {
  for (const float v : values) put(to, T(v).bits);
}

void put_q8_0(std::string& to, std::span<const float> values) {
  for (std::size_t at = 0; at < values.size(); at += kBlock) {
    const std::span block = values.subspan(at, kBlock);
    float most = 0;
    for (const float v : block) most = std::max(most, std::abs(v));
    const float scale = most / 127, inverse = scale > 0 ? 1 / scale : 0;
    put(to, f16(scale).bits);
    for (const float v : block) put(to, static_cast<std::int8_t>(std::round(v * inverse)));
  }
}

// The model, as keys and as tensors with the names of GGUF.
struct Model {
  std::string architecture{};
  GgufKeys keys{};  // behind "ARCHITECTURE."
  std::vector<NamedTensor> tensors{};

  void count(const char* key, i64 value) {
    keys.emplace_back(key, static_cast<std::uint32_t>(value));
  }
  void number(const char* key, double value) { keys.emplace_back(key, static_cast<float>(value)); }
};

// GGUF's name of a module within a layer.
using Names = std::vector<std::pair<std::string_view, std::string_view>>;

// "layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"
std::string name_of(const std::string& ours, std::string_view layers, const Names& inner,
                    const Names& outer) {
  const std::size_t dot = ours.rfind('.');
  const std::string module = ours.substr(0, dot), kind = ours.substr(dot);
  const auto found = [&](const Names& names, std::string_view name) {
    const auto at = std::ranges::find(names, name, &Names::value_type::first);
    check(at != names.end(), "gguf: no name for ", ours);
    return std::string(at->second) + kind;
  };
  if (!module.starts_with(layers)) return found(outer, module);
  const std::size_t behind = module.find('.', layers.size());
  return "blk." + module.substr(layers.size(), behind - layers.size()) + "." +
         found(inner, std::string_view(module).substr(behind + 1));
}

// The rows of each head in halves, (0, half), (1, half + 1) …: llama.cpp turns neighbours where
// Hugging Face's files have halves, in its architecture "llama" and in no other.
Tensor neighbours_of_halves(const Tensor& x, i64 head_size) {
  const i64 half = head_size / 2, rows = x.shape(0), row = x.numel() / rows;
  Tensor out = Tensor::empty(x.shape());
  for (i64 r = 0; r < rows; ++r) {
    const i64 head = r / head_size, i = r % head_size;
    std::copy_n(x.as<float>() + (head * head_size + i % 2 * half + i / 2) * row, row,
                out.as<float>() + r * row);
  }
  return out;
}

std::vector<NamedTensor> on_the_host(const LanguageNet& net) {
  std::vector<NamedTensor> out;
  for (const NamedTensor& p : net.parameters())
    out.push_back({p.name, p.tensor.detach().to(Device::cpu()).to(DType::f32)});
  return out;
}

Model gpt2_as_gguf(const Gpt2& net) {
  const Gpt2Options& o = net.options();
  check<ConfigError>(o.gelu == "tanh",
                     "gguf: llama.cpp computes GELU of a GPT-2 by tanh, and this model learnt with "
                     "the form erf");
  Model m{.architecture = "gpt2"};
  m.count("context_length", o.positions);
  m.count("embedding_length", o.width);
  m.count("feed_forward_length", o.ff > 0 ? o.ff : 4 * o.width);
  m.count("block_count", o.layers);
  m.count("attention.head_count", o.heads);
  m.number("attention.layer_norm_epsilon", o.eps);
  m.count("vocab_size", o.vocabulary);
  const Names inner{{"ln_1", "attn_norm"},       {"ln_2", "ffn_norm"},
                    {"attn.c_attn", "attn_qkv"}, {"attn.c_proj", "attn_output"},
                    {"mlp.c_fc", "ffn_up"},      {"mlp.c_proj", "ffn_down"}},
      outer{{"wte", "token_embd"},
            {"wpe", "position_embd"},
            {"ln_f", "output_norm"},
            {"lm_head", "output"}};
  for (const NamedTensor& p : on_the_host(net)) {
    const std::string name = name_of(p.name, "h.", inner, outer);
    m.tensors.push_back({name, p.tensor});
    const bool is_table = p.name.starts_with("w") || p.name.starts_with("lm_head");
    if (!o.bias && !is_table)  // llama.cpp wants them all
      m.tensors.push_back(
          {name.substr(0, name.rfind('.')) + ".bias", Tensor::zeros({p.tensor.shape(0)})});
  }
  return m;
}

void say_rope(const LlamaOptions& o, Model& m) {
  m.count("rope.dimension_count", o.head_size);
  m.number("rope.freq_base", o.theta);
  const RopeScaling& s = o.scaling;
  if (s.type == "linear") {
    m.keys.emplace_back("rope.scaling.type", "linear");
    m.number("rope.scaling.factor", s.factor);
  }
  if (s.type != "llama3") return;
  check<ConfigError>(m.architecture == "llama",
                     "gguf: llama.cpp scales rotary positions as llama3 "
                     "does for the architecture llama only, not for ",
                     m.architecture);
  LlamaOptions plain = o;
  plain.scaling = {};
  const std::vector<double> turns = rope_frequencies(plain), scaled = rope_frequencies(o);
  std::vector<float> divisors;
  for (std::size_t i = 0; i < turns.size(); ++i)
    divisors.push_back(static_cast<float>(turns[i] / scaled[i]));
  m.tensors.push_back({"rope_freqs.weight", Tensor::from(divisors, {o.head_size / 2})});
}

Model llama_as_gguf(const Llama& net, std::vector<std::string>& notes) {
  const LlamaOptions& o = net.options();
  check(net.lora() == nullptr, "gguf: an adapter is not merged yet");
  Model m{.architecture = o.type == "mistral" ? "llama" : o.type};
  const bool is_llama = m.architecture == "llama";
  check<ConfigError>(o.type != "qwen3" || !o.qkv_bias,
                     "gguf: llama.cpp's qwen3 has no biases of q, k, v and o, and this model has");
  i64 positions = o.positions;
  if (o.window > 0 && o.window < positions) {
    positions = o.window;
    notes.push_back("llama.cpp knows no window of attention in a model of type " + o.type +
                    ": context_length is the window, " + std::to_string(o.window) +
                    "; longer texts would be read otherwise than here");
  }
  m.count("context_length", positions);
  m.count("embedding_length", o.width);
  m.count("feed_forward_length", o.ff);
  m.count("block_count", o.layers);
  m.count("attention.head_count", o.heads);
  m.count("attention.head_count_kv", o.kv_heads);
  m.count("attention.key_length", o.head_size);
  m.count("attention.value_length", o.head_size);
  m.number("attention.layer_norm_rms_epsilon", o.eps);
  m.count("vocab_size", o.vocabulary);
  say_rope(o, m);
  const Names inner{{"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
                    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
                    {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
                    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
                    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
                    {"mlp.down_proj", "ffn_down"}},
      outer{{"embed_tokens", "token_embd"}, {"norm", "output_norm"}, {"lm_head", "output"}};
  for (const NamedTensor& p : on_the_host(net)) {
    const bool turned =
        p.name.find(".q_proj.") != p.name.npos || p.name.find(".k_proj.") != p.name.npos;
    m.tensors.push_back(
        {name_of(p.name, "layers.", inner, outer),
         is_llama && turned ? neighbours_of_halves(p.tensor, o.head_size) : p.tensor});
  }
  return m;
}

GgufType type_of(const Tensor& t, GgufType wanted) {
  if (t.rank() < 2) return GgufType::f32;
  return wanted == GgufType::q8_0 && t.shape(1) % kBlock != 0 ? GgufType::f16 : wanted;
}

std::size_t bytes_of(const Tensor& t, GgufType type) {
  const auto count = static_cast<std::size_t>(t.numel());
  if (type == GgufType::q8_0) return count / kBlock * (kBlock + sizeof(f16));
  return count * (type == GgufType::f32 ? 4 : 2);
}

std::size_t aligned(std::size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

void put_tensor(std::string& to, const NamedTensor& t, GgufType type) {
  const std::span<const float> values = t.tensor.span<float>();
  switch (type) {
    case GgufType::f32:
      to.append(static_cast<const char*>(t.tensor.data()), t.tensor.bytes());
      break;
    case GgufType::bf16:
      put_rounded<bf16>(to, values);
      break;
    case GgufType::f16:
    case GgufType::q8_0: {
      const float most = type == GgufType::f16 ? 65504.f : 127 * 65504.f;
      check<IoError>(std::ranges::all_of(values, [&](float v) { return std::abs(v) <= most; }),
                     t.name, ": has a number beyond ", most, ", which ", info(type).name,
                     " cannot hold; f32 and bf16 can");
      type == GgufType::f16 ? put_rounded<f16>(to, values) : put_q8_0(to, values);
      break;
    }
  }
  to.resize(aligned(to.size()));
}

}  // namespace

GgufType gguf_type(const std::string& option, const std::string& name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i)
    if (name == kTypes[i].name) return static_cast<GgufType>(i);
  fail<ConfigError>(option, " ", name, ": GGUF files have f32, f16, bf16 or q8_0");
}

std::string gguf_bytes(const LanguageNet& net, const std::string& name, GgufType type,
                       const GgufKeys& tokenizer, std::vector<std::string>& notes) {
  const auto* llama = dynamic_cast<const Llama*>(&net);
  const Model model =
      llama ? llama_as_gguf(*llama, notes) : gpt2_as_gguf(dynamic_cast<const Gpt2&>(net));
  GgufKeys keys{{"general.architecture", model.architecture},
                {"general.type", "model"},
                {"general.name", name},
                {"general.file_type", info(type).file},
                {"general.quantization_version", kQuantizationVersion}};
  for (const auto& [key, value] : model.keys)
    keys.emplace_back(model.architecture + "." + key, value);
  keys.insert(keys.end(), tokenizer.begin(), tokenizer.end());

  std::string file = "GGUF";
  put(file, kVersion);
  put(file, static_cast<std::uint64_t>(model.tensors.size()));
  put(file, static_cast<std::uint64_t>(keys.size()));
  for (const auto& [key, value] : keys) {
    put_text(file, key);
    std::visit([&](const auto& v) { put_value(file, v); }, value);
  }
  std::size_t offset = 0, rest = 0;
  for (const NamedTensor& t : model.tensors) {
    const GgufType its = type_of(t.tensor, type);
    put_text(file, t.name);
    put(file, static_cast<std::uint32_t>(t.tensor.rank()));
    for (int d = t.tensor.rank(); d-- > 0;)
      put(file, static_cast<std::uint64_t>(t.tensor.shape(d)));
    put(file, info(its).tensor);
    put(file, static_cast<std::uint64_t>(offset));
    offset += aligned(bytes_of(t.tensor, its));
    rest += t.tensor.rank() > 1 && its != type;
  }
  if (rest > 0)
    notes.push_back(std::to_string(rest) +
                    " matrices have rows of no multiple of 32 numbers; they "
                    "are f16");
  file.resize(aligned(file.size()));
  file.reserve(file.size() + offset);
  for (const NamedTensor& t : model.tensors) put_tensor(file, t, type_of(t.tensor, type));
  return file;
}

}  // namespace gossamer::models
