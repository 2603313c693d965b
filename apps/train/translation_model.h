// A translation model and its tokenizer in a run's folder, and what it does with lines of text.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/core/flat.h"
#include "gossamer/data/text/tokenizer.h"
#include "gossamer/models/beam_search.h"
#include "gossamer/models/transformer.h"

namespace gossamer::apps {

// The model of a configuration for this vocabulary. ConfigError.
models::TransformerOptions translation_options(const Config&, i64 vocabulary);
// Entries of the header of its file: all that it takes to make it again.
std::map<std::string, std::string> translation_metadata(const models::TransformerOptions&);

struct TranslationModel {
  std::unique_ptr<models::Transformer> net;  // in eval mode
  std::unique_ptr<FlatParams> params;        // set if it computes in 16 bits
  std::shared_ptr<const data::Tokenizer> tokenizer;
};
// path: a run's folder, or its file of weights with the tokenizer beside it. IoError.
TranslationModel load_translation_model(const std::filesystem::path&, DType);

struct TranslateOptions {
  i64 beam = 4;
  double length_penalty = 0.6;
  i64 extra = 50;  // a translation has at most so many ids more than its source
};
using Sentence = std::vector<std::int32_t>;  // ids, with the end mark
// Of several sentences at once; the translations without marks. ConfigError: a sentence is longer
// than the model's positions.
std::vector<Sentence> translate_ids(models::Transformer&, const data::Marks&,
                                    const std::vector<Sentence>&, const TranslateOptions&);
// Of lines; that of an empty line is empty.
std::vector<std::string> translate_lines(models::Transformer&, const data::Tokenizer&,
                                         const std::vector<std::string>&, const TranslateOptions&);

}  // namespace gossamer::apps
