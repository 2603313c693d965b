// See language_source.h.
#include "gossamer/apps/train/language_source.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/models/gpt2_file.h"
#include "gossamer/models/llama_file.h"
#include "gossamer/models/sampling.h"
#include "gossamer/nn/inference.h"
#include "gossamer/nn/init.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

// The text of config.json; empty: there is no such file, or no folder.
std::string config_text(const fs::path& folder) {
  std::ifstream in;
  if (!folder.empty()) in.open(folder / "config.json");
  if (!in.is_open()) return "";
  return {std::istreambuf_iterator<char>(in), {}};
}

// The content of config.json; an empty object: there is no such file. IoError: it is of another
// kind of model.
nlohmann::json gpt2_config(const fs::path& folder, const std::string& weights) {
  const fs::path path = folder / "config.json";
  const std::string text = config_text(folder);
  if (text.empty()) return nlohmann::json::object();
  auto config = parse_json<nlohmann::json>(text);
  check<IoError>(config.is_object(), path.string(), ": is no JSON object");
  const nlohmann::json type = config.value("model_type", nlohmann::json("gpt2"));
  if (type == "gpt2") return config;
  fail<IoError>(
      path.string(), ": model_type is ",
      type.is_primitive() ? printable(type.dump()) : type.type_name(),
      type.is_string() && models::is_llama_type(type.get<std::string>())
          ? "; the tensors of " + weights + " are no such model's"
          : "; language models of type gpt2, llama, mistral, qwen2 and qwen3 can be read");
}

void read_config(const nlohmann::json& config, const fs::path& folder, models::Gpt2Options& o) {
  const std::string name = (folder / "config.json").string();
  try {
    o.heads = config.value("n_head", o.heads);
    o.eps = config.value("layer_norm_epsilon", o.eps);
    if (config.contains("n_inner") && !config["n_inner"].is_null()) {
      const i64 inner = config.value("n_inner", i64{0}), has = o.ff > 0 ? o.ff : 4 * o.width;
      check<IoError>(inner == has, name, ": n_inner is ", inner, ", the model has ", has);
    }
    if (config.contains("tie_word_embeddings") && !config["tie_word_embeddings"].is_boolean())
      fail<IoError>(name, ": tie_word_embeddings must be true or false");
    const std::string activation = config.value("activation_function", "gelu_new");
    check<IoError>(
        activation == "gelu_new" || activation == "gelu" || activation == "gelu_pytorch_tanh", name,
        ": activation_function ", activation, "; known are gelu_new and gelu");
    o.gelu = activation == "gelu" ? "erf" : "tanh";
    for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
      check<IoError>(!config.value(key, false), name, ": ", key, " is not supported");
    check<IoError>(config.value("scale_attn_weights", true), name,
                   ": scale_attn_weights = false is not supported");
  } catch (const nlohmann::json::exception& e) {
    fail<IoError>(name, ": ", e.what());
  }
}

void check_heads(const std::string& file, std::optional<i64> wanted, i64 has) {
  check<ConfigError>(!wanted || *wanted == has, "model.heads = ", wanted.value_or(0),
                     ": the model of ", file, " has ", has, "; leave model.heads out");
}

LanguageSource gpt2_in(nn::Weights weights, const fs::path& folder, std::optional<i64> heads) {
  const nlohmann::json config = gpt2_config(folder, weights.file);
  LanguageSource out{models::gpt2_weights(std::move(weights)), {}, {}};
  const std::string& file = out.weights.file;
  for (const char* name : {"wte.weight", "wpe.weight"}) out.weights.check_read(name);
  const auto options = models::gpt2_of(out.weights.tensors);
  check<IoError>(options.has_value(), file,
                 ": is no GPT-2: wte.weight, wpe.weight or h.0.ln_1.weight is missing");
  models::Gpt2Options o = *options;
  out.notes = out.weights.notes;
  read_config(config, folder, o);
  const bool ours = out.weights.metadata.contains("model");
  check<IoError>(o.tied || ours || !config.value("tie_word_embeddings", true), file,
                 ": lm_head.weight differs from wte.weight; a GPT-2 has one table for both, unless "
                 "tie_word_embeddings in config.json is false");
  o = models::gpt2_header_of(out.weights, o);
  if (!out.weights.metadata.contains("heads") && !config.contains("n_head")) {
    if (heads)
      o.heads = *heads;
    else
      out.notes.push_back(
          fmt::format("{} does not say how many heads it has, nor does a config.json beside it; "
                      "{} are taken; model.heads, or n_head in config.json, says otherwise",
                      file, o.heads));
  }
  check_heads(file, heads, o.heads);
  out.options = o;
  return out;
}

LanguageSource llama_in(nn::Weights weights, const fs::path& folder, std::optional<i64> heads) {
  LanguageSource out{models::llama_weights(std::move(weights)), {}, {}};
  const std::string& file = out.weights.file;
  auto options = models::llama_in_header(out.weights.metadata, file);
  if (!options) {
    const std::string text = config_text(folder), path = folder / "config.json";
    check<IoError>(!text.empty(), file,
                   ": is of LLaMA's kind, and there is no config.json beside it, which would say "
                   "how it computes");
    options = models::read_llama_config(text, path);
  }
  models::check_llama_fits(out.weights, *options);
  check_heads(file, heads, options->heads);
  out.notes = out.weights.notes;
  out.options = *options;
  return out;
}

}  // namespace

LanguageSource language_of(nn::Weights weights, const fs::path& folder, std::optional<i64> heads) {
  return models::is_llama(weights) ? llama_in(std::move(weights), folder, heads)
                                   : gpt2_in(std::move(weights), folder, heads);
}

LanguageSource read_language(const ModelSource& source, std::optional<i64> heads) {
  return language_of(read_model(source), source.beside, heads);
}

std::shared_ptr<const data::Tokenizer> tokenizer_beside(const ModelSource& source) {
  return data::find_tokenizer(source.beside.string());
}

std::string hugging_face_config(const models::LanguageOptions& options, const data::Marks& marks,
                                DType dtype) {
  if (const auto* llama = std::get_if<models::LlamaOptions>(&options))
    return models::llama_config(*llama, marks.end, marks.begin, dtype);
  const auto& o = std::get<models::Gpt2Options>(options);
  JsonObject out;
  out.add("architectures", std::vector<std::string>{"GPT2LMHeadModel"})
      .add("model_type", "gpt2")
      .add("activation_function", o.gelu == "erf" ? "gelu" : "gelu_new");
  out.add("n_layer", o.layers)
      .add("n_embd", o.width)
      .add("n_head", o.heads)
      .add("n_positions", o.positions)
      .add("n_ctx", o.positions);
  out.add("vocab_size", o.vocabulary)
      .add("layer_norm_epsilon", o.eps)
      .add("initializer_range", 0.02)
      .add("tie_word_embeddings", o.tied);
  if (o.ff > 0) out.add("n_inner", o.ff);
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"})
    out.add(key, static_cast<double>(o.dropout));
  for (const char* key : {"bos_token_id", "eos_token_id"})
    out.raw(key, marks.end >= 0 ? std::to_string(marks.end) : "null");
  out.add("torch_dtype", models::torch_name(dtype));
  return out.str() + "\n";
}

std::string hugging_face_tokenizer_config(const data::Tokenizer& tokenizer) {
  const auto files = tokenizer.files();
  if (std::ranges::find(files, "vocab.json", &data::Tokenizer::StoredFile::name) == files.end())
    return "";
  const data::Marks marks = tokenizer.marks();
  JsonObject out;
  out.add("tokenizer_class", "GPT2Tokenizer").add("add_prefix_space", false);
  for (const auto& [key, id] : {std::pair{"bos_token", marks.begin >= 0 ? marks.begin : marks.end},
                                {"eos_token", marks.end},
                                {"unk_token", marks.end},
                                {"pad_token", marks.pad}}) {
    std::string name;
    if (id >= 0) tokenizer.decode(std::span(&id, 1), name);
    out.raw(key, id >= 0 ? json_text(name) : "null");
  }
  return out.str() + "\n";
}

std::vector<std::int32_t> end_ids_in(const fs::path& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const fs::path path = folder / name;
    std::ifstream in(path);
    if (!in.good()) continue;
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const auto json = parse_json<nlohmann::json>(text);
    if (!json.is_object() || !json.contains("eos_token_id")) continue;
    const nlohmann::json& said = json["eos_token_id"];
    if (said.is_null()) continue;
    std::vector<std::int32_t> ids;
    for (const nlohmann::json& id : said.is_array() ? said : nlohmann::json::array({said})) {
      check<IoError>(id.is_number_integer() && id >= 0 && id <= 0x7fffffff, path.string(),
                     ": eos_token_id is ", printable(said.dump(), 60),
                     "; wanted an id, or a list of ids");
      ids.push_back(id.get<std::int32_t>());
    }
    return ids;
  }
  return {};
}

Choice choice_in(const fs::path& folder) {
  Choice out;
  const fs::path path = folder / "generation_config.json";
  std::ifstream in(path);
  if (!in.good()) return out;
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto json = parse_json<nlohmann::json>(text);
  check<IoError>(json.is_object(), path.string(), ": is no JSON object");
  const auto read = [&](const char* key, auto& value) {
    const auto at = json.find(key);
    if (at == json.end() || at->is_null()) return;
    check<IoError>(
        std::is_integral_v<std::remove_reference_t<decltype(value)>> ? at->is_number_integer()
                                                                     : at->is_number(),
        path.string(), ": ", key, " is ", printable(at->dump(), 60), "; wanted a number");
    at->get_to(value);
  };
  read("temperature", out.temperature);
  read("top_k", out.top_k);
  read("top_p", out.top_p);
  read("min_p", out.min_p);
  read("repetition_penalty", out.repetition_penalty);
  if (json.value("do_sample", nlohmann::json()) == false) out.temperature = 0;
  try {
    models::check_choice(out);
  } catch (const ConfigError& error) {
    fail<IoError>(path.string(), ": ", error.what());
  }
  return out;
}

LanguageModel load_language_model(const ModelSource& source, DType dtype, std::optional<i64> heads,
                                  Device device, i64 cache) {
  LanguageSource found = read_language(source, heads);
  if (auto* llama = std::get_if<models::LlamaOptions>(&found.options); llama && cache > 0) {
    const i64 bytes = 2 * llama->layers * llama->kv_heads * llama->head_size *
                      static_cast<i64>(size_of(dtype)),
              most = std::max<i64>(1, cache / bytes);
    if (llama->positions > most) {
      found.notes.push_back(
          fmt::format("{}: of its {} positions {} are used: so many keys and "
                      "values have room",
                      source.name, llama->positions, most));
      llama->positions = most;
    }
  }
  LanguageModel m;
  m.file = source.name;
  m.folder = source.beside;
  m.notes = found.notes;
  const nn::NoInitialValues none;
  m.options = found.options;
  m.net = models::make_language(found.options);
  models::load_language(found.weights, *m.net);
  check_finite(*m.net, source.name);
  m.params = nn::put_on(*m.net, device, dtype);
  m.tokenizer = tokenizer_beside(source);
  m.ends = end_ids_in(source.beside);
  m.choice = choice_in(source.beside);
  check<IoError>(!m.tokenizer || m.tokenizer->size() <= m.net->vocabulary(), m.file, ": has ",
                 m.net->vocabulary(), " ids, the tokenizer beside it ",
                 m.tokenizer ? m.tokenizer->size() : 0);
  return m;
}

}  // namespace gossamer::apps
