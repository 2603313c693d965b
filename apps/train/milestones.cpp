// See milestones.h.
#include "gossamer/apps/train/milestones.h"

#include <chrono>
#include <cmath>

#include <fmt/core.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/finish.h"

namespace gossamer::apps {

using Clock = std::chrono::steady_clock;

Milestones::Milestones(Worker& w)
    : w_(w),
      evaluations_(w),
      epoch_(w.task->epoch()),
      evaluate_at_(w.task->validates() ? first(w.config.eval.every) : INFINITY),
      save_at_(first(w.config.run.checkpoint_every)),
      measure_at_(w.place.size > 1 ? first(w.config.eval.consensus_every) : INFINITY),
      all_meet_(!w.place.rejoin) {}

double Milestones::in_samples(const Amount& every) const {
  return samples_of(every, run_units(w_.config, w_.place.size, epoch_));
}

double Milestones::first(const Amount& every) const {
  if (every.value <= 0) return INFINITY;
  const double step = in_samples(every);
  return (std::floor(w_.start_samples / step) + 1) * step;
}

void Milestones::after_step() {
  const double seen = w_.method->samples_seen();
  look(seen);  // first, so that the checkpoint knows of it
  if (seen >= save_at_) {
    w_.save(fmt::format("epoch-{:07.2f}", save_at_ / epoch_));
    save_at_ += in_samples(w_.config.run.checkpoint_every);
  }
}

void Milestones::last() {
  // The estimate of the samples may have passed some, at which the others wait.
  if (w_.method->done()) look(INFINITY);
}

// In ascending order, the same on all workers. The end of the run evaluates, too.
void Milestones::look(double seen) {
  for (;;) {
    const double next = std::min(evaluate_at_, measure_at_);
    // where one stops, all do
    if (seen < next || next >= w_.total_samples || w_.patience.exhausted()) return;
    if (evaluate_at_ <= measure_at_)
      evaluate(seen);
    else
      measure_consensus();
  }
}

bool Milestones::together(const char* what, const std::function<void()>& step) {
  if (w_.place.size > 1 && (w_.method->stats().alive < w_.place.size || w_.lost)) all_meet_ = false;
  if (!all_meet_) return false;
  try {
    step();
  } catch (const DistError& e) {
    all_meet_ = false;
    w_.folder.log("fault",
                  JsonObject().add("what", std::string(what) + ": " + e.what()).add("peer", -1));
  }
  return all_meet_;
}

void Milestones::evaluate(double seen) {
  const double at = evaluate_at_, every = in_samples(w_.config.eval.every);
  evaluate_at_ += every;
  if (evaluations_.of_mean() &&
      together("evaluating the average", [&] { evaluations_.evaluate_mean(at); }))
    return;
  if (stop_signal()) return;  // it is not lost, but stopped, and so is this one
  if (evaluations_.of_mean() && !alone_)
    w_.progress.note(
        "eval     some worker was lost: from now on each worker evaluates its own model" +
        std::string(w_.config.train.patience > 0 ? ", and train.patience ends nothing" : ""));
  alone_ = true;
  // one for all that a step has passed, and none where the end of the run follows
  while (evaluate_at_ <= seen && evaluate_at_ < w_.total_samples) evaluate_at_ += every;
  if (seen < w_.total_samples) evaluations_.evaluate_own(seen);
}

// A collective at fixed numbers of samples: every worker reaches each of them at its own time and
// waits for the others there, while gossip goes on. The copy is taken between two events
// (quiesce). A worker that is done early takes part in the rest in last(), so none waits in vain.
void Milestones::measure_consensus() {
  const double at = measure_at_;
  measure_at_ += in_samples(w_.config.eval.consensus_every);
  together("measuring the consensus distance", [&] {
    const trace::Scope scope("consensus distance");
    const auto began = Clock::now();
    Tensor copy;
    w_.method->quiesce([&] { copy = w_.params->values().clone(); });
    const double exact = dist::exact_consensus_distance(copy, w_.group->collectives());
    w_.folder.log(
        "consensus",
        JsonObject()
            .add("samples", at)
            .add("epoch", at / epoch_)
            .add("exact", exact)
            .add("estimate", w_.method->stats().consensus_distance)
            .add("waited_s", std::chrono::duration<double>(Clock::now() - began).count()));
    w_.add_to_board(at, {{"consensus_distance_exact", exact}});
  });
}

}  // namespace gossamer::apps
