// A language model and its tokenizer: in a run's folder, or in one of Hugging Face, with
// config.json, model.safetensors and the tokenizer's files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/core/flat.h"
#include "gossamer/data/text/text_set.h"
#include "gossamer/data/text/tokenizer.h"
#include "gossamer/models/gpt2.h"

namespace gossamer::apps {

// The model of a configuration for this vocabulary: model.name with what model.layers … say
// otherwise; with model.init that of the file. notes: what had to be guessed. ConfigError: a key
// that contradicts model.init. IoError.
models::Gpt2Options language_options(const Config&, i64 vocabulary,
                                     std::vector<std::string>& notes);

// config.json as GPT2LMHeadModel.from_pretrained() reads it. end: the end mark, or -1.
std::string hugging_face_config(const models::Gpt2Options&, std::int32_t end);

// What the file of model.init says and no key does, as key=value, so that a configuration says what
// is trained. ConfigError: model.name is of another size. IoError.
std::vector<std::string> keys_of_language_model(const Config&);

// ConfigError: the tokenizer beside model.init gives other ids than that of the data, and
// model.init_other_tokenizer does not allow it. notes: if it does, or if there is none.
void check_tokenizer_of_init(const Config&, const data::TextSet&, std::vector<std::string>& notes);

struct LanguageModel {
  std::string file;                                  // as it was named
  std::filesystem::path folder;                      // of its tokenizer
  std::unique_ptr<models::Gpt2> net;                 // in eval mode
  std::unique_ptr<FlatParams> params;                // set if it computes in 16 bits
  std::shared_ptr<const data::Tokenizer> tokenizer;  // null: none beside the file
  std::vector<std::string> notes;                    // what had to be guessed
};
// Reads a model, with config.json and tokenizer beside it. What the tensors don't say is taken from
// the file's header, then from config.json. heads: for a file that has neither; empty: guessed.
// IoError names the file and what is missing or wrong; Error: values that are not finite.
LanguageModel load_language_model(const ModelSource&, DType, std::optional<i64> heads = {},
                                  Device = {});

}  // namespace gossamer::apps
