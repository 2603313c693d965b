// See checkpoints.h.
#include "gossamer/apps/train/checkpoints.h"

#include <memory>

#include <fmt/format.h>

#include "gossamer/apps/train/checkpoint.h"
#include "gossamer/apps/train/rescue.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {

std::string checkpoint_label(double samples) { return fmt::format("samples-{:012.0f}", samples); }

std::string interrupted_label(double legs_before) {
  return legs_before > 0 ? fmt::format("interrupted-{:.0f}", legs_before + 1) : "interrupted";
}

std::shared_ptr<const CheckpointCopy> Checkpoints::copy() const {
  nn::Position& at = trainer_.at;
  at.samples = trainer_.method->samples_seen();
  // After the last batch of an epoch, a resumed run begins the next epoch.
  const nn::Position next =
      at.step >= trainer_.task.data->steps() ? nn::Position{at.samples, at.epoch + 1, 0} : at;
  FiguresSoFar figures{.earlier = plan_.earlier,
                       .leg = trainer_.leg(plan_),
                       .alive = trainer_.group->alive(),
                       .patience = trainer_.patience.text(),
                       .model = trainer_.task.model->header()};
  data::SampleOrder order = trainer_.task.data->order();
  nn::Position place = next;
  if (const Dealing* dealing = trainer_.dealing.get()) {
    data::Dealt begin = dealing->begin();
    place = {at.samples, begin.next.epoch, begin.next.step};
    order.common = {.batches = trainer_.task.data->steps(),
                    .batches_of_step = dealing->batches_of_step(),
                    .again = std::move(begin.again),
                    .done = dealing->known()};
  }
  figures.leg.failed_checkpoints = static_cast<double>(failed_);
  return std::make_shared<const CheckpointCopy>(copy_state(plan_.place.rank, plan_.place.size,
                                                           trainer_.state(), *trainer_.method,
                                                           place, order, figures));
}

void Checkpoints::save(const std::string& label) {
  if (!journal_.folder.writes()) return;
  wait();
  label_ = label;
  job_.start([copied = copy(), folder = journal_.folder.path(), label,
              keep = plan_.config.run.keep] { write_checkpoint(folder, label, *copied, keep); });
}

void Checkpoints::poll() {
  const auto error = job_.ended();
  if (!error) return;
  const bool first = !failing_;
  failing_ = !error->empty();
  if (!failing_) return;
  ++failed_;
  last_failure_ = label_ + ": " + *error;
  journal_.warn(fmt::format("checkpoint {} was not written, training goes on: {}", label_, *error),
                first);
}

void Checkpoints::wait() {
  job_.wait();
  poll();
}

void Checkpoints::keep(const std::string& label) {
  if (!journal_.folder.writes()) return;
  label_ = label;
  kept_ = copy();
}

void Checkpoints::write_kept() {
  if (!kept_) return;
  try {
    write_checkpoint(journal_.folder.path(), label_, *kept_, plan_.config.run.keep);
  } catch (const Error& e) {
    journal_.warn(fmt::format("the last checkpoint, {}, was not written: {}", label_, e.what()));
  }
  kept_ = nullptr;
}

std::filesystem::path Checkpoints::save_interrupted() {
  if (!journal_.folder.writes()) return {};
  wait();
  const std::string label = interrupted_label(plan_.earlier.legs);
  const auto copied = kept_ ? kept_ : copy();
  try {
    write_checkpoint(journal_.folder.path(), label, *copied, plan_.config.run.keep);
    return journal_.folder.path();
  } catch (const IoError& e) {
    auto there =
        write_elsewhere(journal_.folder.path().filename().string(), plan_.run_id(), plan_.several(),
                        [&](const auto& elsewhere) {
                          write_checkpoint(elsewhere, label, *copied, plan_.config.run.keep);
                          write_file(elsewhere / "config.toml", to_toml(plan_.config));
                        });
    // so that --resume finds it
    const std::filesystem::path link = journal_.folder.path() / kElsewhere;
    std::error_code error;
    if (std::filesystem::is_symlink(link, error)) std::filesystem::remove(link, error);
    std::filesystem::create_directory_symlink(std::filesystem::absolute(there), link, error);
    journal_.warn(
        fmt::format("the checkpoint is in {}, because it could not be written into the run's "
                    "folder: {}",
                    there.string(), e.what()));
    return there;
  }
}

}  // namespace gossamer::apps
