// A translation model and its tokenizer in a run's folder, and what it does with sentences: for the
// program and the C API.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/apps/train/model_source.h"
#include "gossamer/core/flat.h"
#include "gossamer/data/text/tokenizer.h"
#include "gossamer/models/transformer.h"
#include "gossamer/models/translator.h"

namespace gossamer::apps {

struct TranslationModel {
  std::string file;                          // as it was named
  std::filesystem::path folder;              // of its tokenizer
  std::unique_ptr<models::Transformer> net;  // in eval mode
  std::unique_ptr<FlatParams> params;        // set if it computes in 16 bits
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::vector<std::string> notes;  // what was taken
};
// Reads a model, with the tokenizer beside it. IoError; Error: values that are not finite.
TranslationModel load_translation_model(const ModelSource&, DType, Device = {});

struct TranslateOptions {
  i64 beam = 1;  // hypotheses of a sentence; 1: greedy
  double length_penalty = models::BeamOptions().length_penalty;
  i64 extra = 50;  // a translation has at most so many ids more than its source
};
using Sentence = std::vector<std::int32_t>;  // ids, with the end mark
// Of the model, on its device; on a GPU its steps become graphs, or it is told why not.
models::Translator translator_of(models::Transformer&, const data::Marks&, const TranslateOptions&,
                                 GraphFailure);
// How many ids the translation of each has at most: as many as its source and `extra`, and no more
// than the model has positions.
std::vector<i64> translation_limits(const models::Translator&, const std::vector<Sentence>&,
                                    i64 extra = TranslateOptions().extra);
// Translates several sentences at once. A sentence has at most as many ids as the model has
// positions. extra: as TranslateOptions have it.
std::vector<Sentence> translate_sentences(models::Translator&, const std::vector<Sentence>&,
                                          i64 extra = TranslateOptions().extra);
// The text of ids up to the end mark, or up to a label that counts for nothing. A model that has
// learnt little may write other marks: they are left out.
std::string sentence_text(const data::Tokenizer&, std::span<const std::int32_t>);

}  // namespace gossamer::apps
