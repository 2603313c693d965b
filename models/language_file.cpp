// See language_file.h.
#include "gossamer/models/language_file.h"

#include "gossamer/core/error.h"
#include "gossamer/models/gpt2_file.h"
#include "gossamer/models/llama_file.h"
#include "gossamer/models/named_options.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/shards.h"

namespace gossamer::models {

LanguageOptions language_options(const std::string& name, const ModelOptions& o) {
  if (family_of(name, "language").name == "llama") return llama_options(name, o);
  return gpt2_options(name, o);
}

std::unique_ptr<LanguageNet> make_language(const LanguageOptions& options) {
  if (const auto* llama = std::get_if<LlamaOptions>(&options))
    return std::make_unique<Llama>(*llama);
  return std::make_unique<Gpt2>(std::get<Gpt2Options>(options));
}

LanguageOptions options_of(const LanguageNet& net) {
  if (const auto* llama = dynamic_cast<const Llama*>(&net)) return llama->options();
  return dynamic_cast<const Gpt2&>(net).options();
}

i64 vocabulary_of(const LanguageOptions& options) {
  return std::visit([](const auto& o) { return o.vocabulary; }, options);
}
i64 positions_of(const LanguageOptions& options) {
  return std::visit([](const auto& o) { return o.positions; }, options);
}
const char* family_of(const LanguageOptions& options) {
  return std::holds_alternative<LlamaOptions>(options) ? "llama" : "gpt2";
}
std::vector<NamedSetting> settings_of_language(const LanguageOptions& options) {
  return std::visit([](const auto& o) { return named_options(o); }, options);
}
std::map<std::string, std::string> language_header(const std::string& name,
                                                   const LanguageOptions& options) {
  return std::visit([&](const auto& o) { return metadata_of(name, o); }, options);
}

void set_dropout(LanguageOptions& options, float dropout) {
  if (auto* gpt2 = std::get_if<Gpt2Options>(&options))
    gpt2->dropout = dropout;
  else
    check<ConfigError>(dropout == 0, "model ", family_of(options), " takes no dropout");
}

bool is_language(const nn::Weights& file) {
  return is_llama(file) || gpt2_of(gpt2_weights(file).tensors).has_value();
}

nn::Weights fitting_weights(nn::Weights file, const LanguageNet& net) {
  if (const auto* llama = dynamic_cast<const Llama*>(&net))
    return llama_without_tied_head(std::move(file), llama->options());
  return gpt2_without_zero_biases(std::move(file), dynamic_cast<const Gpt2&>(net));
}

void load_language(const nn::Weights& file, LanguageNet& net) {
  nn::load(fitting_weights(file, net), net);
}

void save_language(const std::filesystem::path& path, const LanguageNet& net,
                   const FlatParams* params, std::map<std::string, std::string> header,
                   const LanguageFileOptions& options) {
  const auto* llama = dynamic_cast<const Llama*>(&net);
  std::vector<NamedTensor> tensors =
      llama ? llama_tensors(*llama, params) : gpt2_tensors(dynamic_cast<const Gpt2&>(net), params);
  for (NamedTensor& t : tensors) t.tensor = t.tensor.to(options.dtype);
  header.emplace("format", "pt");  // Hugging Face's tools look for it
  nn::write_shards(path, tensors, header, options.most_bytes);
}

std::vector<NamedTensor> language_tensors(const LanguageNet& net, const FlatParams& params) {
  if (const auto* llama = dynamic_cast<const Llama*>(&net)) return llama_tensors(*llama, &params);
  return gpt2_tensors(dynamic_cast<const Gpt2&>(net), &params);
}

std::vector<NamedTensor> language_in_file(const std::vector<NamedTensor>& parameters,
                                          const std::map<std::string, std::string>& header) {
  if (header.contains("config")) return llama_in_file(parameters);
  const auto bias = header.find("bias");
  return gpt2_in_file(parameters, bias == header.end() || bias->second != "false");
}

}  // namespace gossamer::models
