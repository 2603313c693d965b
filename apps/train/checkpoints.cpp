// See checkpoints.h.
#include "gossamer/apps/train/checkpoints.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "gossamer/apps/train/checkpoint.h"
#include "gossamer/apps/train/rescue.h"
#include "gossamer/apps/train/worker.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {

std::string checkpoint_label(double samples) { return fmt::format("samples-{:012.0f}", samples); }

std::string interrupted_label(double legs_before) {
  return legs_before > 0 ? fmt::format("interrupted-{:.0f}", legs_before + 1) : "interrupted";
}

std::shared_ptr<const CheckpointCopy> Checkpoints::copy() const {
  w_.at.samples = w_.method->samples_seen();
  nn::Position next = w_.at;
  // After the last batch of an epoch, a resumed run begins the next epoch.
  if (w_.at.step >= w_.task->steps()) next = {w_.at.samples, w_.at.epoch + 1, 0};
  return std::make_shared<const CheckpointCopy>(copy_state(w_.place.rank, w_.place.size, w_.state(),
                                                           *w_.method, next, w_.task->order(),
                                                           {.earlier = w_.earlier,
                                                            .leg = w_.leg(),
                                                            .alive = w_.group->alive(),
                                                            .patience = w_.patience.text(),
                                                            .model = w_.task->model_header()}));
}

void Checkpoints::save(const std::string& label) {
  if (!w_.folder.writes()) return;
  wait();
  label_ = label;
  job_.start([copied = copy(), folder = w_.folder.path(), label, keep = w_.config.run.keep] {
    write_checkpoint(folder, label, *copied, keep);
  });
}

void Checkpoints::poll() {
  const auto error = job_.ended();
  if (!error) return;
  const bool first = !failing_;
  failing_ = !error->empty();
  if (!failing_) return;
  ++failed_;
  last_failure_ = label_ + ": " + *error;
  w_.warn(fmt::format("checkpoint {} was not written, training goes on: {}", label_, *error),
          first);
}

void Checkpoints::wait() {
  job_.wait();
  poll();
}

void Checkpoints::keep(const std::string& label) {
  if (!w_.folder.writes()) return;
  label_ = label;
  kept_ = copy();
}

void Checkpoints::write_kept() {
  if (!kept_) return;
  try {
    write_checkpoint(w_.folder.path(), label_, *kept_, w_.config.run.keep);
  } catch (const Error& e) {
    w_.warn(fmt::format("the last checkpoint, {}, was not written: {}", label_, e.what()));
  }
  kept_ = nullptr;
}

std::filesystem::path Checkpoints::save_interrupted() {
  if (!w_.folder.writes()) return {};
  wait();
  const std::string label = interrupted_label(w_.earlier.legs);
  const auto copied = kept_ ? kept_ : copy();
  try {
    write_checkpoint(w_.folder.path(), label, *copied, w_.config.run.keep);
    return w_.folder.path();
  } catch (const IoError& e) {
    const auto there =
        write_elsewhere(w_.folder.path().filename().string(), w_.run_id(), w_.place.size > 1,
                        [&](const auto& elsewhere) {
                          write_checkpoint(elsewhere, label, *copied, w_.config.run.keep);
                          write_file(elsewhere / "config.toml", to_toml(w_.config));
                        });
    // so that --resume finds it
    const std::filesystem::path link = w_.folder.path() / kElsewhere;
    std::error_code error;
    if (std::filesystem::is_symlink(link, error)) std::filesystem::remove(link, error);
    std::filesystem::create_directory_symlink(std::filesystem::absolute(there), link, error);
    w_.warn(
        fmt::format("the checkpoint is in {}, because it could not be written into the run's "
                    "folder: {}",
                    there.string(), e.what()));
    return there;
  }
}

}  // namespace gossamer::apps
