// A language model and its tokenizer: in a run's folder, or in one of Hugging Face, with
// config.json, model.safetensors and the tokenizer's files.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/apps/train/model_source.h"
#include "gossamer/core/flat.h"
#include "gossamer/data/text/tokenizer.h"
#include "gossamer/models/gpt2.h"

namespace gossamer::apps {

// config.json as GPT2LMHeadModel.from_pretrained() reads it. end: the end mark, or -1.
std::string hugging_face_config(const models::Gpt2Options&, std::int32_t end);

// The weights of a GPT-2, and its options, in which the heads are that many where no file says it.
struct Gpt2Source {
  nn::Weights weights;  // as models::gpt2_weights()
  models::Gpt2Options options;
  std::vector<std::string> notes;  // what had to be guessed
};
// heads: wanted; empty: those of the file, or a guess. ConfigError: the file has others. IoError.
Gpt2Source read_gpt2(const ModelSource&, std::optional<i64> heads = {});
// null: there is none
std::shared_ptr<const data::Tokenizer> tokenizer_beside(const ModelSource&);

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
