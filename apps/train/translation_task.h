// Translation as a task of `gossamer train`: samples are ids of a side of a full batch, called
// tokens, so an epoch has train.batch for each of its batches.
#pragma once

#include "gossamer/apps/train/task.h"
#include "gossamer/apps/train/translation_model.h"
#include "gossamer/data/text/bleu.h"
#include "gossamer/data/text/pair_loader.h"
#include "gossamer/data/text/text_set.h"
#include "gossamer/models/transformer.h"

namespace gossamer::apps {

struct PairEvaluation {
  i64 tokens = 4096;  // as PairLoaderOptions
  i64 rows = 0;
  TranslateOptions search{};
};
// Of each model over a share of the pairs: loss is the sum of those of `items` labels, `more` is
// what BLEU counts of the model's translations. DataError as PairLoader says.
std::vector<Counts> evaluate_pairs(std::span<nn::Module* const>, const data::TextPart&,
                                   const data::Tokenizer&, const PairEvaluation&, Device,
                                   const Task::Share&);

class TranslationTask : public Task {
 public:
  TranslationTask(const Config&, const dist::LaunchInfo&, Device);

  std::string unit() const override { return "tokens"; }
  const char* rate_name() const override { return "tokens/s"; }
  double epoch() const override;
  bool validates() const override { return !val_.empty(); }
  std::string val_hash() const override;
  std::string description() const override;
  std::vector<std::string> notes() const override { return {}; }
  void add_facts(JsonObject&) const override;

  std::unique_ptr<nn::Module> make_model(bool from_start,
                                         std::vector<std::string>& notes) const override;
  void save_model(const std::filesystem::path&, nn::Module&, const FlatParams&,
                  const std::map<std::string, std::string>&) const override;
  void save_beside_model(const std::filesystem::path&) const override;

  std::vector<std::string> open_loader() override { return {}; }
  ImageOrder order() const override;
  i64 steps() const override { return loader_->steps(); }
  void seek(const Position& at, double) override { loader_->seek(at.epoch, at.step); }
  DrawnBatch next(const Position&, double) override;
  Tensor loss(nn::Module&, const StepBatch&, const Tensor&) const override;
  void run(nn::Module&, const StepBatch&) const override;
  data::LoaderStats stats() const override { return {.wait_s = wait_s_}; }

  // With greedy translations.
  std::vector<Counts> evaluate(std::span<nn::Module* const>, const Share&, bool) override;
  Numbers numbers(const Score&) const override;
  std::string sentence(const Score&) const override;

 private:
  const Config& config_;
  const Device device_;
  data::TextSet set_;
  data::TextPart val_;
  models::TransformerOptions model_;
  std::unique_ptr<data::PairLoader> loader_;
  double wait_s_ = 0;
};

}  // namespace gossamer::apps
