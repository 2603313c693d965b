// What the data and the models of tasks of text have in common: samples are ids, called tokens, and
// one loader gives the batches.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/picture_model.h"
#include "gossamer/apps/train/resume_point.h"
#include "gossamer/apps/train/task.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/text/text_set.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/init.h"

namespace gossamer::apps {

template <class Loader>
class TextData : public TaskData {
 public:
  std::string unit() const override { return "tokens"; }
  const char* rate_name() const override { return "tokens/s"; }
  bool validates() const override { return !val.empty(); }
  std::vector<std::string> notes() const override { return notes_; }

  std::string outputs() const override {
    return set.tokenizer ? "ids of the tokenizer " + std::to_string(set.tokenizer->hash()) : "ids";
  }

  // With another tokenizer the same ids are other text.
  void check_resume(const ResumePoint& from) const override {
    const auto then = data::parse_order(nn::read_metadata(from.files[0]));
    const auto now = order().tokenizer;
    check<ConfigError>(!then || !then->tokenizer || !now || *then->tokenizer == *now, set.path,
                       ": was made with another tokenizer than what ", from.run_folder.string(),
                       " was trained on; give the old one to `gossamer data tokenize` "
                       "(--tokenizer), or train anew, without --resume");
  }

  i64 steps() const override { return loader_->steps(); }
  void seek(const nn::Position& at, double) override { loader_->seek(at.epoch, at.step); }
  void deal(const data::Deal& from, double) override { loader_->deal(from); }
  nn::DrawnBatch next(const nn::Position&, double) override {
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    nn::DrawnBatch batch = draw();
    wait_s_ += std::chrono::duration<double>(Clock::now() - began).count();
    return batch;
  }
  data::LoaderStats stats() const override { return {.wait_s = wait_s_}; }

  const data::TextSet set;
  const data::TextPart val;

 protected:
  TextData(const Config& config, const dist::LaunchInfo& place, data::TextSet opened,
           data::TextPart (*validation)(const Config&, const data::TextSet&))
      : set(std::move(opened)), val(validation(config, set)), config_(config), place_(place) {}
  virtual nn::DrawnBatch draw() = 0;  // from the loader; empty: the epoch is over

  const Config& config_;
  const dist::LaunchInfo place_;
  std::unique_ptr<Loader> loader_;
  std::vector<std::string> notes_;

 private:
  double wait_s_ = 0;
};

// A model of text.
template <class Net, class Data>
class TextModel : public TaskModel {
 public:
  TextModel(const Config& config, const Data& data, Device device)
      : TaskModel(compute_type(config.train.dtype)),
        config_(config),
        data_(data),
        device_(device) {}

  std::unique_ptr<nn::Module> make(bool from_start,
                                   std::vector<std::string>& notes) const override {
    nn::seed_initialisation(static_cast<std::uint64_t>(config_.train.seed));
    std::unique_ptr<Net> net = make_net();
    if (!config_.model.init.empty() && from_start) {
      const nn::Weights file = initial_weights(config_);
      load(file, *net);
      notes.push_back("init     " + file.file + ": " + std::to_string(file.tensors.size()) +
                      " tensors");
    }
    adapt(*net, notes);
    freeze_and_check(config_, *net, notes);
    return net;
  }
  void save_beside(const std::filesystem::path& folder) const override {
    if (!data_.set.tokenizer) return;
    for (const data::Tokenizer::StoredFile& file : data_.set.tokenizer->files())
      write_file(folder / file.name, file.bytes);
  }

 protected:
  virtual std::unique_ptr<Net> make_net() const = 0;
  // Once it has its first weights.
  virtual void adapt(Net&, std::vector<std::string>& /*notes*/) const {}
  virtual void load(const nn::Weights& file, Net& net) const { nn::load(file, net); }

  const Config& config_;
  const Data& data_;
  const Device device_;
};

}  // namespace gossamer::apps
