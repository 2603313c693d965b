// Translation as a task of `gossamer train`. Samples are ids of one side of a full batch, called
// tokens, so each batch of an epoch counts as train.batch samples.
#pragma once

#include <optional>
#include <vector>

#include "gossamer/apps/train/task.h"
#include "gossamer/apps/train/translation_model.h"
#include "gossamer/data/text/bleu.h"
#include "gossamer/data/text/chrf.h"
#include "gossamer/data/text/pair_loader.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::apps {

// How pairs are evaluated. tokens, rows: of a batch, as of PairLoaderOptions.
struct PairEvaluation {
  i64 tokens = data::PairLoaderOptions().tokens;
  i64 rows = data::PairLoaderOptions().rows;
  TranslateOptions search{};
  i64 length = 0;  // most ids of a sentence with its mark; 0: those that the model reads
};
// What is counted of translations: the numbers in Counts::more and Score::more, which may be added
// up. Of runs that were made before there was a chrF, only BLEU's.
struct TranslationCounts {
  data::BleuCounts bleu{};
  std::optional<data::ChrfCounts> chrf = data::ChrfCounts();
  std::vector<double> numbers() const;
  static TranslationCounts of(const std::vector<double>& numbers);
};
// The counts of each model over a share of the pairs: loss is the sum over `items` labels, `more`
// is what is counted of the model's translations. DataError as PairLoader.
std::vector<Counts> evaluate_pairs(std::span<nn::Module* const>, const data::TextPart&,
                                   const data::Tokenizer&, const PairEvaluation&, Device,
                                   const TaskMetrics::Share&);

Task translation_task(const Config&, const dist::LaunchInfo&, Device);

}  // namespace gossamer::apps
