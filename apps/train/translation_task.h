// Translation as a task of `gossamer train`: samples are ids of a side of a full batch, called
// tokens, so an epoch has train.batch for each of its batches.
#pragma once

#include "gossamer/apps/train/text_task.h"
#include "gossamer/apps/train/translation_model.h"
#include "gossamer/data/text/bleu.h"
#include "gossamer/data/text/pair_loader.h"
#include "gossamer/models/transformer.h"

namespace gossamer::apps {

struct PairEvaluation {
  i64 tokens = 4096;  // as PairLoaderOptions
  i64 rows = 0;
  TranslateOptions search{};
  i64 length = 0;  // most ids of a sentence with its mark; 0: those that the model reads
};
// Of each model over a share of the pairs: loss is the sum of those of `items` labels, `more` is
// what BLEU counts of the model's translations. DataError as PairLoader says.
std::vector<Counts> evaluate_pairs(std::span<nn::Module* const>, const data::TextPart&,
                                   const data::Tokenizer&, const PairEvaluation&, Device,
                                   const Task::Share&);

class TranslationTask : public TextTask<data::PairLoader> {
 public:
  TranslationTask(const Config&, const dist::LaunchInfo&, Device);

  double epoch() const override;
  std::string val_hash() const override;
  std::string description() const override;
  void add_facts(JsonObject&) const override;
  i64 output_count() const override { return model_.vocabulary; }

  std::unique_ptr<nn::Module> make_model(bool from_start,
                                         std::vector<std::string>& notes) const override;
  std::map<std::string, std::string> model_header() const override;
  void save_model(const std::filesystem::path&, nn::Module&, const FlatParams&,
                  const std::map<std::string, std::string>&) const override;
  void save_beside_model(const std::filesystem::path&) const override;

  std::vector<std::string> open_loader() override { return {}; }
  SampleOrder order() const override;
  Tensor loss(nn::Module&, const StepBatch&, const Tensor&) const override;
  void run(nn::Module&, const StepBatch&) const override;

  // With greedy translations.
  std::vector<Counts> evaluate(std::span<nn::Module* const>, const Share&, bool) override;
  Numbers numbers(const Score&) const override;
  std::string sentence(const Score&) const override;

 private:
  DrawnBatch draw() override;

  models::TransformerOptions model_;
};

}  // namespace gossamer::apps
