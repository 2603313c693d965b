// See task.h.
#include "gossamer/apps/train/task.h"

#include "gossamer/apps/train/language_task.h"
#include "gossamer/apps/train/picture_task.h"
#include "gossamer/apps/train/translation_task.h"
#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {

Task::Numbers board_numbers(Task::Numbers numbers, bool ema) {
  for (auto& [name, value] : numbers)
    name = (ema ? "ema_" : "") + (name == "loss" ? "val_loss" : name);
  return numbers;
}

namespace {

std::unique_ptr<Task> open_task(const Config& config, const dist::LaunchInfo& place,
                                Device device) {
  if (config.task == "language") return std::make_unique<LanguageTask>(config, place, device);
  if (config.task == "translation") return std::make_unique<TranslationTask>(config, place, device);
  return std::make_unique<PictureTask>(config, place, device);
}

}  // namespace

std::unique_ptr<Task> make_task(const Config& config, const dist::LaunchInfo& place,
                                Device device) {
  auto task = open_task(config, place, device);
  metadata_text(task->model_header(), "the model's header");
  return task;
}

}  // namespace gossamer::apps
