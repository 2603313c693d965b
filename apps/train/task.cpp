// See task.h.
#include "gossamer/apps/train/task.h"

#include "gossamer/apps/train/language_task.h"
#include "gossamer/apps/train/picture_task.h"
#include "gossamer/apps/train/translation_task.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/layers.h"

namespace gossamer::apps {

TaskMetrics::Numbers board_numbers(TaskMetrics::Numbers numbers, bool ema) {
  for (auto& [name, value] : numbers)
    name = (ema ? "ema_" : "") + (name == "loss" ? "val_loss" : name);
  return numbers;
}

void TaskModel::save(const std::filesystem::path& path, nn::Module& net, const FlatParams& params,
                     const std::map<std::string, std::string>& more) const {
  auto metadata = header();
  metadata.insert(more.begin(), more.end());
  write(path, net, params, metadata);
}

void TaskModel::write(const std::filesystem::path& path, nn::Module& net, const FlatParams& params,
                      const std::map<std::string, std::string>& header) const {
  nn::save(path, net, params, params.values(), header);
}

EvalMode::EvalMode(std::span<nn::Module* const> nets) {
  for (nn::Module* net : nets) {
    if (net->training()) trained_.push_back(net);
    net->eval();
  }
}

EvalMode::~EvalMode() {
  for (nn::Module* net : trained_) net->train();
}

void estimate_batch_norm(const Task& task, nn::Module& net, const nn::Position& at, i64 batches) {
  nn::estimate_batch_norm(net, [&] {
    for (i64 i = 0; i < batches;) {
      const nn::DrawnBatch batch = task.data->next(at, 1);
      if (batch.batch.empty()) continue;  // an epoch is over
      task.model->run(net, batch.batch);
      ++i;
    }
  });
}

namespace {

Task open_task(const Config& config, const dist::LaunchInfo& place, Device device) {
  if (config.task == "language") return language_task(config, place, device);
  if (config.task == "translation") return translation_task(config, place, device);
  return picture_task(config, place, device);
}

}  // namespace

Task make_task(const Config& config, const dist::LaunchInfo& place, Device device) {
  Task task = open_task(config, place, device);
  metadata_text(task.model->header(), "the model's header");
  return task;
}

}  // namespace gossamer::apps
