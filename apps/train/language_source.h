// A language model and its tokenizer: in a run's folder, or in one of Hugging Face, with
// config.json, its weights and the tokenizer's files.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/apps/train/model_source.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/ops/choice.h"
#include "gossamer/data/text/tokenizer.h"
#include "gossamer/models/language_file.h"

namespace gossamer::apps {

// config.json as AutoModelForCausalLM.from_pretrained() reads it.
std::string hugging_face_config(const models::LanguageOptions&, const data::Marks&,
                                DType = DType::f32);

// tokenizer_config.json for a tokenizer of GPT-2's two files, which AutoTokenizer else knows beside
// a GPT-2 only. Empty: the tokenizer is another one.
std::string hugging_face_tokenizer_config(const data::Tokenizer&);

// The weights of a language model, and its options. What no tensor says is taken from the file's
// header, else from config.json.
struct LanguageSource {
  nn::Weights weights;  // as the family's reader gives them
  models::LanguageOptions options;
  std::vector<std::string> notes;  // what had to be guessed
};
// heads: of a GPT-2 that says nowhere how many it has; empty: guessed. ConfigError: the file has
// others. IoError names the file and what is missing or wrong.
LanguageSource read_language(const ModelSource&, std::optional<i64> heads = {});
// The same of weights that were read, with the folder of their config.json; empty: there is none.
LanguageSource language_of(nn::Weights, const std::filesystem::path& folder,
                           std::optional<i64> heads = {});
// null: there is none
std::shared_ptr<const data::Tokenizer> tokenizer_beside(const ModelSource&);
// How a folder's generation_config.json wants ids to be chosen: temperature, top_k, top_p, min_p,
// repetition_penalty, and the likeliest always if do_sample is false; what it does not say is as
// in Choice. IoError.
Choice choice_in(const std::filesystem::path& folder);
// The ids of eos_token_id, a number or a list, in a folder's generation_config.json, else in its
// config.json; none if neither says one. IoError.
std::vector<std::int32_t> end_ids_in(const std::filesystem::path& folder);

struct LanguageModel {
  std::string file;              // as it was named
  std::filesystem::path folder;  // of its tokenizer
  models::LanguageOptions options;
  std::unique_ptr<models::LanguageNet> net;          // in eval mode
  std::unique_ptr<FlatParams> params;                // set if it computes in 16 bits
  std::shared_ptr<const data::Tokenizer> tokenizer;  // null: none beside the file
  std::vector<std::int32_t> ends;                    // each ends a text: end_ids_in()
  Choice choice;                                     // choice_in()
  std::vector<std::string> notes;                    // what had to be guessed
};
// Reads a model, with config.json and tokenizer beside it. heads: as read_language(). cache: a
// model that has no weights for its positions gets so few of them that the keys and values of one
// text have so many bytes at most; 0: all. IoError names the file and what is missing or wrong;
// Error: values that are not finite.
LanguageModel load_language_model(const ModelSource&, DType, std::optional<i64> heads = {},
                                  Device = {}, i64 cache = 0);

}  // namespace gossamer::apps
