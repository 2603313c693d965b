// See picture_task.h.
#include "gossamer/apps/train/picture_task.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/first_images.h"
#include "gossamer/apps/train/judged.h"
#include "gossamer/apps/train/known_data.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/picture_model.h"
#include "gossamer/apps/train/picture_step.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/cache.h"
#include "gossamer/data/errors.h"
#include "gossamer/dist/faults/inject.h"
#include "gossamer/models/model_file.h"
#include "gossamer/nn/checkpoint.h"

namespace gossamer::apps {
namespace {

Pictures on_device(Pictures prepare, Device device) {
  prepare.device = device;
  return prepare;
}

// --- the data

class Data final : public TaskData {
 public:
  Data(const Config& config, const dist::LaunchInfo& place, Device device)
      : sets(open_data(config, place.size)),
        prepare(on_device(pictures(config), device)),
        step(prepare,  // A common order is the same whoever computes which part of it.
             TrainingLoss(config, deals_one_order(config) ? 0 : place.rank)),
        config_(config),
        place_(place) {
    size_milestones_ = parts_of_run(config.data.size_milestones, config, place.size,
                                    static_cast<double>(sets.train->size()));
    wrong_labels_ = std::ranges::any_of(
        dist::parse_injections(config.dist.inject), [&](const dist::Injection& i) {
          return i.how == dist::Attack::label_flip && i.rank == place.rank;
        });
    if (config.data.cache_gb <= 0) return;
    cache_ = std::make_shared<data::Cache>(static_cast<std::size_t>(1e9 * config.data.cache_gb));
    sets.train = data::cached(sets.train, cache_);
    if (sets.val) sets.val = data::cached(sets.val, cache_);
  }

  std::string unit() const override { return "images"; }
  const char* rate_name() const override { return "images/s"; }
  double epoch() const override { return static_cast<double>(sets.train->size()); }
  bool validates() const override { return sets.val != nullptr; }
  std::vector<std::string> left_out() const override { return sets.left_out; }
  std::string val_hash() const override {
    return fmt::format("{:016x}", data::fingerprint(*sets.val));
  }
  std::string description() const override {
    return fmt::format("{}: {} images to train, {} to validate, {} classes, {}x{}",
                       paths_text(config_.data.train), sets.train->size(),
                       sets.val ? std::to_string(sets.val->size()) : "none",
                       sets.train->classes().size(), prepare.train_size, prepare.train_size);
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> out = sets.notes;
    if (!sets.left_out.empty())
      out.push_back(
          fmt::format("{} images are damaged beyond their label and left out, the first: {}",
                      sets.left_out.size(), sets.left_out[0]));
    if (cache_)
      out.push_back(fmt::format("up to {:g} GB of encoded files are kept in memory{}",
                                config_.data.cache_gb, place_.size > 1 ? ", by each worker" : ""));
    return out;
  }
  i64 output_count() const override { return static_cast<i64>(sets.train->classes().size()); }
  std::string outputs() const override {
    return fmt::format("{}", fmt::join(sets.train->classes(), ", "));
  }
  void add_facts(JsonObject& facts) const override {
    facts.add("classes", sets.train->classes().size());
    for (const auto& [name, set] : {std::pair("train", sets.train), std::pair("val", sets.val)})
      if (set)  // data.val=none
        facts.add(std::string(name) + "_images", set->size())
            .add(std::string(name) + "_hash", fmt::format("{:016x}", data::fingerprint(*set)));
  }
  void check_resume(const ResumePoint& from) const override {
    const ModelSource source = find_model(from.checkpoint);
    const nn::Weights file{
        .file = source.name, .tensors = {}, .metadata = model_header(source), .notes = {}};
    if (const auto then = models::header_of(file))
      check_classes_of_model("--resume " + from.run_folder.string() + ": its model", then->classes,
                             sets.train->classes(),
                             "give the data that the run was begun with, or begin a new run with "
                             "its model: model.init=" +
                                 from.run_folder.string());
    check_held_back("--resume " + from.run_folder.string(), file.metadata, config_, sets.val.get());
  }

  void check_loader() const override { loader_options(config_, prepare, place_, {}); }
  std::vector<std::string> open_loader() override {
    const auto images = own_images(config_, sets.train, place_);
    const data::LoaderOptions options = loader_options(config_, prepare, place_, prepare.device);
    loader_ = std::make_unique<data::Loader>(images, options);
    order_ = data::sample_order(options.batch, options.epoch, data::fingerprint(*images));
    if (!options.boxes) return {};
    return {"pictures to train on are cropped, resized and flipped on the device of the network"};
  }
  data::SampleOrder order() const override { return order_; }
  i64 steps() const override { return loader_->steps(); }
  void seek(const nn::Position& at, double progress) override {
    loader_->set_size(side(progress));
    loader_->seek(at.epoch, at.step);
  }
  void deal(const data::Deal& from, double progress) override {
    loader_->set_size(side(progress));
    loader_->deal(from);
  }
  nn::DrawnBatch next(const nn::Position& at, double progress) override {
    loader_->set_size(side(progress));
    const data::Batch batch = loader_->next();
    if (wrong_labels_ && batch.labels.defined())
      for (std::int32_t& label : batch.labels.span<std::int32_t>())
        label = static_cast<std::int32_t>(sets.train->classes().size()) - 1 - label;
    return batch.labels.defined() ? step.drawn(batch, at) : nn::DrawnBatch();
  }
  data::LoaderStats stats() const override { return loader_->stats(); }
  std::vector<std::string> damaged() const override { return loader_->damaged(); }
  std::vector<std::pair<std::string, double>> figures() const override {
    if (!cache_) return {};
    return {{"data_cached_mb", 1e-6 * static_cast<double>(cache_->used())}};
  }
  std::vector<std::pair<std::string, data::Image>> pictures_of(
      const nn::DrawnBatch& drawn) const override {
    return first_images(drawn, step, prepare, sets.train->classes());
  }

  DataSets sets;
  const Pictures prepare;
  const PictureStep step;

 private:
  // The side of the training images at this point of the run (data.sizes).
  int side(double progress) const {
    for (std::size_t i = 0; i < config_.data.sizes.size(); ++i)
      if (i >= size_milestones_.size() || progress < size_milestones_[i])
        return static_cast<int>(config_.data.sizes[i]);
    return prepare.train_size;
  }

  const Config& config_;
  const dist::LaunchInfo place_;
  std::shared_ptr<data::Cache> cache_;   // of both sets; none if data.cache_gb is 0
  std::vector<double> size_milestones_;  // parts of the run
  std::unique_ptr<data::Loader> loader_;
  data::SampleOrder order_;
  bool wrong_labels_ = false;  // the attack label-flip
};

// --- the model

class Model final : public TaskModel {
 public:
  Model(const Config& config, const Data& data)
      : TaskModel(data.prepare.dtype), config_(config), data_(data) {}

  std::unique_ptr<nn::Module> make(bool from_start,
                                   std::vector<std::string>& notes) const override {
    return model_to_train(config_, data_.sets.train->classes(), from_start, notes);
  }
  std::map<std::string, std::string> header() const override {
    auto out = model_metadata(config_.model.name, data_.prepare, data_.sets.train->classes());
    out.merge(held_back_entry(config_, data_.sets.val.get()));
    return out;
  }
  Tensor loss(nn::Module& net, const nn::StepBatch& batch, const Tensor& numbers) const override {
    return data_.step.loss(net, batch, numbers);
  }
  void run(nn::Module& net, const nn::StepBatch& batch) const override {
    net(data_.prepare(picture_batch(batch)));
  }

 private:
  const Config& config_;
  const Data& data_;
};

// --- evaluation

class Metrics final : public TaskMetrics {
 public:
  Metrics(const Config& config, const dist::LaunchInfo& place, const Data& data)
      : config_(config), place_(place), data_(data) {}

  std::vector<Counts> evaluate(std::span<nn::Module* const> nets, const Share& share,
                               bool final) override {
    return apps::evaluate(nets, data_.sets.val, data_.prepare,
                          {.batch = config_.eval.batch,
                           .threads = data_threads_for(config_, place_.local_size),
                           .part = share.part,
                           .parts = share.parts,
                           .max_batches = share.max_batches,
                           .strict = config_.data.strict_images,
                           .ensemble = false},
                          final ? &damaged_ : nullptr, final ? &judged_ : nullptr);
  }
  std::vector<std::string> damaged() const override { return damaged_; }
  std::vector<double> details() const override { return judged_table(judged_, *data_.sets.val); }
  void set_details(const std::vector<double>& sum) override {
    judged_ = judged_from(sum, *data_.sets.val);
  }
  std::string classes_json() const override {
    return class_report_json(class_report(judged_, *data_.sets.val));
  }
  Numbers numbers(const Score& s) const override {
    return {{"top1", s.top1}, {"top5", s.top5}, {"loss", s.loss}};
  }
  std::string sentence(const Score& s) const override {
    return fmt::format("top-1 {:.2f} %, loss {:.3f}", 100 * s.top1, s.loss);
  }
  std::string result(const Score& s) const override {
    return fmt::format("top-1 {:.2f} %, top-5 {:.2f} %", 100 * s.top1, 100 * s.top5);
  }

 private:
  const Config& config_;
  const dist::LaunchInfo place_;
  const Data& data_;
  // of the final evaluation
  std::vector<Judgement> judged_;
  std::vector<std::string> damaged_;
};

}  // namespace

Task picture_task(const Config& config, const dist::LaunchInfo& place, Device device) {
  auto data = std::make_unique<Data>(config, place, device);
  auto model = std::make_unique<Model>(config, *data);
  auto metrics = std::make_unique<Metrics>(config, place, *data);
  return {std::move(data), std::move(model), std::move(metrics)};
}

}  // namespace gossamer::apps
