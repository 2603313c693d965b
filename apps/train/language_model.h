// A language model and its tokenizer: in a run's folder, or in one of Hugging Face, with
// config.json, model.safetensors and the tokenizer's files.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/apps/config.h"
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
// Entries of the header of its file.
std::map<std::string, std::string> language_metadata(const std::string& name,
                                                     const models::Gpt2Options&);

// ConfigError: `key` was given (not 0, or true), and the model of `file` has another value.
void check_agrees(const char* key, i64 given, i64 of_file, const std::string& file);

// Adds a note if the tokenizer beside model.init is not that of the data. (Files that differ may
// still give the same ids.)
void note_other_tokenizer(const Config&, const data::TextSet&, std::vector<std::string>& notes);

struct LanguageModel {
  std::string file;                                  // as it was named
  std::filesystem::path folder;                      // of its tokenizer
  std::unique_ptr<models::Gpt2> net;                 // in eval mode
  std::unique_ptr<FlatParams> params;                // set if it computes in 16 bits
  std::shared_ptr<const data::Tokenizer> tokenizer;  // null: none beside the file
  std::vector<std::string> notes;                    // what had to be guessed
};
// path: as of find_model(), with config.json and tokenizer beside it. What the tensors don't say is
// taken from the file's header, then from config.json. heads: for a file that has
// neither; 0: guessed. IoError names the file and what is missing or wrong;
// Error: values that are not finite.
LanguageModel load_language_model(const std::filesystem::path&, DType, i64 heads = 0);

}  // namespace gossamer::apps
