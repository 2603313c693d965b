// See milestones.h.
#include "gossamer/apps/train/milestones.h"

#include <chrono>
#include <cmath>

#include <fmt/core.h>

#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/finish.h"

namespace gossamer::apps {

using Clock = std::chrono::steady_clock;

Milestones::Milestones(Worker& w)
    : w_(w),
      epoch_(static_cast<double>(w.train_set->size())),
      evaluate_at_(w.val_set ? first(w.config.eval.every) : INFINITY),
      save_at_(first(w.config.run.checkpoint_every)),
      measure_at_(first(w.config.eval.consensus_every)),
      measures_(!w.place.rejoin) {}

double Milestones::first(double every_epochs) const {
  if (every_epochs <= 0) return INFINITY;
  const double step = every_epochs * epoch_;
  return (std::floor(w_.start_samples / step) + 1) * step;
}

void Milestones::after_step() {
  const double seen = w_.method->samples_seen();
  if (seen >= save_at_) {
    w_.save(fmt::format("epoch-{:07.2f}", save_at_ / epoch_));
    save_at_ += w_.config.run.checkpoint_every * epoch_;
  }
  if (seen >= evaluate_at_ && seen < w_.total_samples) {
    evaluate_own(seen);
    evaluate_at_ += w_.config.eval.every * epoch_;
  }
  measure_consensus(seen);
}

void Milestones::last() {
  // The estimate of the samples may have passed some measurements, at which the others wait.
  if (w_.method->done()) measure_consensus(INFINITY);
}

// Each worker evaluates its own model on its own share, without waiting for the others. The shares
// together are the whole set.
void Milestones::evaluate_own(double seen) {
  const trace::Scope scope("evaluate");
  const Counts c = evaluate(*w_.net, w_.val_set, w_.prepare,
                            {.batch = w_.config.eval.batch,
                             .threads = data_threads_for(w_.config, w_.place.local_size),
                             .part = w_.place.rank,
                             .parts = w_.place.size,
                             .strict = w_.config.data.strict_images});
  if (c.images == 0) return;
  w_.folder.log("eval", JsonObject()
                            .add("of", "own model on its share")
                            .add("samples", seen)
                            .add("epoch", seen / epoch_)
                            .add("images", c.images)
                            .add("top1", c.top1 / c.images)
                            .add("top5", c.top5 / c.images)
                            .add("loss", c.loss / c.images));
  w_.add_to_board(
      seen,
      {{"top1", c.top1 / c.images}, {"top5", c.top5 / c.images}, {"val_loss", c.loss / c.images}});
  w_.progress.note(fmt::format(
      "epoch {:.2f}: worker {}'s model on its share: top-1 {:.2f} %, loss {:.3f} ({:.0f} images)",
      seen / epoch_, w_.place.rank, 100 * c.top1 / c.images, c.loss / c.images, c.images));
}

// A collective at fixed numbers of samples: every worker reaches each of them at its own time and
// waits for the others there, while gossip goes on. The copy is taken between two events
// (quiesce). A worker that is done early takes part in the rest in last(), so none waits in vain.
void Milestones::measure_consensus(double seen) {
  for (; seen >= measure_at_ && measure_at_ < w_.total_samples;
       measure_at_ += w_.config.eval.consensus_every * epoch_) {
    if (!measures_ || w_.place.size == 1) continue;
    if (w_.method->stats().alive < w_.place.size || w_.lost) {
      measures_ = false;
      continue;
    }
    const trace::Scope scope("consensus distance");
    const auto began = Clock::now();
    Tensor copy;
    w_.method->quiesce([&] { copy = w_.params->values().clone(); });
    try {
      const double exact = dist::exact_consensus_distance(copy, w_.group->collectives());
      w_.folder.log(
          "consensus",
          JsonObject()
              .add("samples", measure_at_)
              .add("epoch", measure_at_ / epoch_)
              .add("exact", exact)
              .add("estimate", w_.method->stats().consensus_distance)
              .add("waited_s", std::chrono::duration<double>(Clock::now() - began).count()));
      w_.add_to_board(measure_at_, {{"consensus_distance_exact", exact}});
    } catch (const DistError& e) {
      measures_ = false;
      w_.folder.log("fault",
                    JsonObject()
                        .add("what", std::string("measuring the consensus distance: ") + e.what())
                        .add("peer", -1));
    }
  }
}

}  // namespace gossamer::apps
