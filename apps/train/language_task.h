// Language models as a task of `gossamer train`: samples are ids, called tokens.
#pragma once

#include "gossamer/apps/train/text_task.h"
#include "gossamer/data/text/window_loader.h"
#include "gossamer/models/gpt2.h"

namespace gossamer::apps {

// What is measured of a text: the mean loss of its ids, and what follows from it.
struct TextScore {
  double loss = 0;           // nats of an id
  double perplexity = 0;     // exp(loss)
  double bits_per_byte = 0;  // comparable between vocabularies; NaN: the bytes are not known
};
// loss: the mean of so many ids, of a text of so many bytes (0: not known).
TextScore text_score(double loss, double ids, double bytes);

// Of each model over a share of a text: loss is the sum of those of `items` ids.
std::vector<Counts> evaluate_text(std::span<nn::Module* const>, const data::TextPart&,
                                  const data::Marks&, i64 length, i64 batch, Device,
                                  const Task::Share&);

// The text of data.val, or that beside data.train; empty with data.val=none. ConfigError,
// DataError.
// DataError: the text of `path` has no id that comes after another.
void check_predicts(const std::string& path, const data::TextPart& text);
data::TextPart validation_text(const Config&, const data::TextSet& train);

class LanguageTask : public TextTask<data::WindowLoader> {
 public:
  LanguageTask(const Config&, const dist::LaunchInfo&, Device);

  double epoch() const override { return static_cast<double>(set_.train.tokens->size()); }
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

  void check_loader() const override;
  std::vector<std::string> open_loader() override;
  SampleOrder order() const override;
  Tensor loss(nn::Module&, const StepBatch&, const Tensor&) const override;
  void run(nn::Module&, const StepBatch&) const override;

  std::vector<Counts> evaluate(std::span<nn::Module* const>, const Share&, bool) override;
  Numbers numbers(const Score&) const override;
  std::string sentence(const Score&) const override;

 private:
  data::WindowLoaderOptions loader_options() const;
  TextScore score(const Score&) const;
  DrawnBatch draw() override;

  const dist::LaunchInfo place_;
  models::Gpt2Options model_;
};

}  // namespace gossamer::apps
