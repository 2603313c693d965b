// Language models of any family: made by their options, and read and written as Hugging Face's
// library has them.
// Errors: as gpt2_file.h and llama_file.h.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/core/setting.h"
#include "gossamer/models/gpt2.h"
#include "gossamer/models/language_net.h"
#include "gossamer/models/llama.h"
#include "gossamer/nn/weights.h"

namespace gossamer::models {

using LanguageOptions = std::variant<Gpt2Options, LlamaOptions>;

// Those of the model with this name. ConfigError for an unknown one.
LanguageOptions language_options(const std::string& name, const ModelOptions&);
std::unique_ptr<LanguageNet> make_language(const LanguageOptions&);
LanguageOptions options_of(const LanguageNet&);

i64 vocabulary_of(const LanguageOptions&);
i64 positions_of(const LanguageOptions&);
// Its name in the registry, which is also that of a model of the family.
const char* family_of(const LanguageOptions&);
// What ModelOptions declare of them.
std::vector<NamedSetting> settings_of_language(const LanguageOptions&);
// The header of a model's file.
std::map<std::string, std::string> language_header(const std::string& name, const LanguageOptions&);

// ConfigError: this family has no dropout, and it is not 0.
void set_dropout(LanguageOptions&, float);

// Whether the weights of a file are those of a language model, by their names and shapes.
bool is_language(const nn::Weights& file);
// The weights as the family's reader gives them, without those that this model of it does not
// have, though files may: biases that are zero, a head that is the embedding. IoError.
nn::Weights fitting_weights(nn::Weights, const LanguageNet&);
// Loads what the family's reader gives.
void load_language(const nn::Weights&, LanguageNet&);
struct LanguageFileOptions {
  DType dtype = DType::f32;  // of all numbers
  i64 most_bytes = 0;        // as nn::write_shards() has it
};
// Writes what Hugging Face's library reads, beside config.json, from the model's tensors or from
// the values of params. Biases that a GPT-2 lacks are zero. IoError.
void save_language(const std::filesystem::path&, const LanguageNet&, const FlatParams* params,
                   std::map<std::string, std::string> header = {}, const LanguageFileOptions& = {});
// All parameters as files have them, with the values of params.
std::vector<NamedTensor> language_tensors(const LanguageNet&, const FlatParams& params);
// Parameters as they stand in a file with this header.
std::vector<NamedTensor> language_in_file(const std::vector<NamedTensor>& parameters,
                                          const std::map<std::string, std::string>& header);

}  // namespace gossamer::models
