// What tasks of text have in common: samples are ids, called tokens, and one loader gives the
// batches.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/resume_point.h"
#include "gossamer/apps/train/task.h"
#include "gossamer/core/error.h"
#include "gossamer/data/text/text_set.h"
#include "gossamer/nn/checkpoint.h"

namespace gossamer::apps {

template <class Loader>
class TextTask : public Task {
 public:
  std::string unit() const override { return "tokens"; }
  const char* rate_name() const override { return "tokens/s"; }
  bool validates() const override { return !val_.empty(); }
  std::vector<std::string> notes() const override { return notes_; }

  std::string outputs() const override {
    return set_.tokenizer ? "ids of the tokenizer " + std::to_string(set_.tokenizer->hash())
                          : "ids";
  }

  // With another tokenizer the same ids are other text.
  void check_resume(const ResumePoint& from) const override {
    const auto then = parse_order(nn::read_metadata(from.files[0]));
    const auto now = order().tokenizer;
    check<ConfigError>(!then || !then->tokenizer || !now || *then->tokenizer == *now, set_.path,
                       ": was made with another tokenizer than what ", from.run_folder.string(),
                       " was trained on; give the old one to `gossamer data tokenize` "
                       "(--tokenizer), or train anew, without --resume");
  }

  i64 steps() const override { return loader_->steps(); }
  void seek(const nn::Position& at, double) override { loader_->seek(at.epoch, at.step); }
  nn::DrawnBatch next(const nn::Position&, double) override {
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    nn::DrawnBatch batch = draw();
    wait_s_ += std::chrono::duration<double>(Clock::now() - began).count();
    return batch;
  }
  data::LoaderStats stats() const override { return {.wait_s = wait_s_}; }

 protected:
  TextTask(const Config& config, Device device, data::TextSet set,
           data::TextPart (*validation)(const Config&, const data::TextSet&))
      : Task(compute_type(config.train.dtype)),
        config_(config),
        device_(device),
        set_(std::move(set)),
        val_(validation(config, set_)) {}
  virtual nn::DrawnBatch draw() = 0;  // from the loader; empty: the epoch is over

  const Config& config_;
  const Device device_;
  data::TextSet set_;
  data::TextPart val_;
  std::unique_ptr<Loader> loader_;
  std::vector<std::string> notes_;

 private:
  double wait_s_ = 0;
};

}  // namespace gossamer::apps
