// See gpt2_source.h.
#include "gossamer/apps/train/gpt2_source.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/models/gpt2_file.h"
#include "gossamer/nn/inference.h"
#include "gossamer/nn/init.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

// The content of config.json; an empty object: there is no such file. IoError: it is of another
// kind of model.
nlohmann::json config_in(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  std::ifstream in(path);
  if (!in.good()) return nlohmann::json::object();
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  auto config = parse_json<nlohmann::json>(text);
  check<IoError>(config.is_object(), path.string(), ": is no JSON object");
  const auto type = config.find("model_type");
  check<IoError>(type == config.end() || *type == "gpt2", path.string(), ": model_type is ",
                 type == config.end()   ? ""
                 : type->is_primitive() ? printable(type->dump())
                                        : type->type_name(),
                 "; language models of type gpt2 can be read");
  return config;
}

void read_config(const nlohmann::json& config, const fs::path& folder, models::Gpt2Options& o) {
  const std::string name = (folder / "config.json").string();
  try {
    o.heads = config.value("n_head", o.heads);
    o.eps = config.value("layer_norm_epsilon", o.eps);
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

}  // namespace

Gpt2Source read_gpt2(const ModelSource& source, std::optional<i64> heads) {
  const nlohmann::json config = config_in(source.beside);
  Gpt2Source out{models::gpt2_weights(read_model(source)), {}, {}};
  const std::string& file = out.weights.file;
  for (const char* name : {"wte.weight", "wpe.weight"}) out.weights.check_read(name);
  const auto options = models::gpt2_of(out.weights.tensors);
  check<IoError>(options.has_value(), file,
                 ": is no GPT-2: wte.weight, wpe.weight or h.0.ln_1.weight is missing");
  out.options = *options;
  out.notes = out.weights.notes;
  read_config(config, source.beside, out.options);
  out.options = models::gpt2_header_of(out.weights, out.options);
  if (!out.weights.metadata.contains("heads") && !config.contains("n_head")) {
    if (heads)
      out.options.heads = *heads;
    else
      out.notes.push_back(
          fmt::format("{} does not say how many heads it has, nor does a config.json beside it; "
                      "{} are taken; model.heads, or n_head in config.json, says otherwise",
                      file, out.options.heads));
  }
  check<ConfigError>(!heads || *heads == out.options.heads, "model.heads = ", heads.value_or(0),
                     ": the model of ", file, " has ", out.options.heads,
                     "; leave model.heads out");
  return out;
}

std::shared_ptr<const data::Tokenizer> tokenizer_beside(const ModelSource& source) {
  return data::find_tokenizer(source.beside.string());
}

std::string hugging_face_config(const models::Gpt2Options& o, std::int32_t end) {
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
      .add("tie_word_embeddings", true);
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"})
    out.add(key, static_cast<double>(o.dropout));
  for (const char* key : {"bos_token_id", "eos_token_id"})
    out.raw(key, end >= 0 ? std::to_string(end) : "null");
  return out.str() + "\n";
}

LanguageModel load_language_model(const ModelSource& source, DType dtype, std::optional<i64> heads,
                                  Device device) {
  const Gpt2Source found = read_gpt2(source, heads);
  LanguageModel m;
  m.file = source.name;
  m.folder = source.beside;
  m.notes = found.notes;
  const nn::NoInitialValues none;
  m.net = std::make_unique<models::Gpt2>(found.options);
  models::load_gpt2(found.weights, *m.net);
  check_finite(*m.net, source.name);
  m.params = nn::put_on(*m.net, device, dtype);
  m.tokenizer = tokenizer_beside(source);
  check<IoError>(!m.tokenizer || m.tokenizer->size() <= found.options.vocabulary, m.file, ": has ",
                 found.options.vocabulary, " ids, the tokenizer beside it ",
                 m.tokenizer ? m.tokenizer->size() : 0);
  return m;
}

}  // namespace gossamer::apps
