// See picture_task.h.
#include "gossamer/apps/train/picture_task.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/first_images.h"
#include "gossamer/apps/train/judged.h"
#include "gossamer/apps/train/known_data.h"
#include "gossamer/apps/train/model_file.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/errors.h"
#include "gossamer/models/model_file.h"
#include "gossamer/nn/checkpoint.h"

namespace gossamer::apps {
namespace {

Pictures on_device(Pictures prepare, Device device) {
  prepare.device = device;
  return prepare;
}

}  // namespace

PictureTask::PictureTask(const Config& config, const dist::LaunchInfo& place, Device device)
    : Task(pictures(config).dtype),
      config_(config),
      place_(place),
      sets_(open_data(config, place.size)),
      prepare_(on_device(pictures(config), device)),
      step_(prepare_, TrainingLoss(config, place.rank)) {
  size_milestones_ = parts_of_run(config.data.size_milestones, config, place.size,
                                  static_cast<double>(sets_.train->size()));
  if (config.data.cache_gb <= 0) return;
  cache_ = std::make_shared<data::Cache>(static_cast<std::size_t>(1e9 * config.data.cache_gb));
  sets_.train = data::cached(sets_.train, cache_);
  if (sets_.val) sets_.val = data::cached(sets_.val, cache_);
}

// --- the data

std::string PictureTask::val_hash() const {
  return fmt::format("{:016x}", data::fingerprint(*sets_.val));
}

std::string PictureTask::description() const {
  return fmt::format("{}: {} images to train, {} to validate, {} classes, {}x{}",
                     paths_text(config_.data.train), sets_.train->size(),
                     sets_.val ? std::to_string(sets_.val->size()) : "none",
                     sets_.train->classes().size(), prepare_.train_size, prepare_.train_size);
}

std::vector<std::string> PictureTask::notes() const {
  std::vector<std::string> out = sets_.notes;
  if (!sets_.left_out.empty())
    out.push_back(
        fmt::format("{} images are damaged beyond their label and left out, the first: {}",
                    sets_.left_out.size(), sets_.left_out[0]));
  if (cache_)
    out.push_back(fmt::format("up to {:g} GB of encoded files are kept in memory{}",
                              config_.data.cache_gb, place_.size > 1 ? ", by each worker" : ""));
  return out;
}

std::string PictureTask::outputs() const {
  return fmt::format("{}", fmt::join(sets_.train->classes(), ", "));
}

void PictureTask::add_facts(JsonObject& facts) const {
  facts.add("classes", sets_.train->classes().size());
  for (const auto& [name, set] : {std::pair("train", sets_.train), std::pair("val", sets_.val)})
    if (set)  // data.val=none
      facts.add(std::string(name) + "_images", set->size())
          .add(std::string(name) + "_hash", fmt::format("{:016x}", data::fingerprint(*set)));
}

void PictureTask::check_resume(const ResumePoint& from) const {
  const ModelSource source = find_model(from.checkpoint);
  const nn::Weights file{.file = source.name,
                         .tensors = {},
                         .metadata = ::gossamer::apps::model_header(source),
                         .notes = {}};
  if (const auto then = models::header_of(file))
    check_classes_of_model("--resume " + from.run_folder.string() + ": its model", then->classes,
                           sets_.train->classes(),
                           "give the data that the run was begun with, or begin a new run with "
                           "its model: model.init=" +
                               from.run_folder.string());
  check_held_back("--resume " + from.run_folder.string(), file.metadata, config_, sets_.val.get());
}

// --- the model

std::unique_ptr<nn::Module> PictureTask::make_model(bool from_start,
                                                    std::vector<std::string>& notes) const {
  return model_to_train(config_, sets_.train->classes(), from_start, notes);
}

std::map<std::string, std::string> PictureTask::model_header() const {
  auto header = model_metadata(config_.model.name, prepare_, sets_.train->classes());
  header.merge(held_back_entry(config_, sets_.val.get()));
  return header;
}

void PictureTask::save_model(const std::filesystem::path& path, nn::Module& net,
                             const FlatParams& params,
                             const std::map<std::string, std::string>& more) const {
  auto metadata = model_header();
  metadata.insert(more.begin(), more.end());
  nn::save(path, net, params, params.values(), metadata);
}

// --- training

void PictureTask::check_loader() const { loader_options(config_, prepare_, place_, {}); }

std::vector<std::string> PictureTask::open_loader() {
  const auto images = own_images(config_, sets_.train, place_);
  const data::LoaderOptions options = loader_options(config_, prepare_, place_, prepare_.device);
  loader_ = std::make_unique<data::Loader>(images, options);
  order_ = sample_order(*images, options);
  if (!options.boxes) return {};
  return {"pictures to train on are cropped, resized and flipped on the device of the network"};
}

int PictureTask::side(double progress) const {
  for (std::size_t i = 0; i < config_.data.sizes.size(); ++i)
    if (i >= size_milestones_.size() || progress < size_milestones_[i])
      return static_cast<int>(config_.data.sizes[i]);
  return prepare_.train_size;
}

void PictureTask::seek(const nn::Position& at, double progress) {
  loader_->set_size(side(progress));
  loader_->seek(at.epoch, at.step);
}

nn::DrawnBatch PictureTask::next(const nn::Position& at, double progress) {
  loader_->set_size(side(progress));
  const data::Batch batch = loader_->next();
  return batch.labels.defined() ? step_.drawn(batch, at) : nn::DrawnBatch();
}

Tensor PictureTask::loss(nn::Module& net, const nn::StepBatch& batch, const Tensor& numbers) const {
  return step_.loss(net, batch, numbers);
}

void PictureTask::run(nn::Module& net, const nn::StepBatch& batch) const {
  net(prepare_(picture_batch(batch)));
}

std::vector<std::string> PictureTask::damaged() const {
  std::vector<std::string> all = loader_->damaged();
  all.insert(all.end(), damaged_.begin(), damaged_.end());
  return all;
}

void PictureTask::log_step(JsonObject& row) const {
  if (cache_) row.add("data_cached_mb", 1e-6 * static_cast<double>(cache_->used()));
}

void PictureTask::show(EventWriter& board, i64 step, const nn::DrawnBatch& drawn) const {
  board.images(step, first_images(drawn, step_, prepare_, sets_.train->classes()));
}

// --- evaluation

std::vector<Counts> PictureTask::evaluate(std::span<nn::Module* const> nets, const Share& share,
                                          bool final) {
  return evaluate_together(nets, sets_.val, prepare_,
                           {.batch = config_.eval.batch,
                            .threads = data_threads_for(config_, place_.local_size),
                            .part = share.part,
                            .parts = share.parts,
                            .max_batches = share.max_batches,
                            .strict = config_.data.strict_images,
                            .ensemble = false},
                           final ? &damaged_ : nullptr, final ? &judged_ : nullptr);
}

std::vector<double> PictureTask::details() const { return judged_table(judged_, *sets_.val); }

void PictureTask::set_details(const std::vector<double>& sum) {
  judged_ = judged_from(sum, *sets_.val);
}

void PictureTask::write_details(const RunFolder& folder) const {
  write_file(folder.file("classes.json"), class_report_json(class_report(judged_, *sets_.val)));
}

Task::Numbers PictureTask::numbers(const Score& s) const {
  return {{"top1", s.top1}, {"top5", s.top5}, {"loss", s.loss}};
}

std::string PictureTask::sentence(const Score& s) const {
  return fmt::format("top-1 {:.2f} %, loss {:.3f}", 100 * s.top1, s.loss);
}

std::string PictureTask::result(const Score& s) const {
  return fmt::format("top-1 {:.2f} %, top-5 {:.2f} %", 100 * s.top1, 100 * s.top5);
}

}  // namespace gossamer::apps
