// See milestones.h.
#include "gossamer/apps/train/milestones.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/finish.h"

namespace gossamer::apps {

namespace {

// How long the training waits for the checkpoint before: longer than a disk that is merely busy
// takes, shorter than others wait for this worker.
constexpr std::chrono::seconds kLongestWait{30};

double seconds_between(std::chrono::steady_clock::time_point a,
                       std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

}  // namespace

Milestones::Milestones(Worker& w)
    : w_(w),
      evaluations_(w),
      epoch_(w.task->epoch()),
      evaluate_at_(w.task->validates() ? first(w.config.eval.every) : INFINITY),
      measure_at_(w.place.size > 1 ? first(w.config.eval.consensus_every) : INFINITY),
      all_meet_(!w.place.rejoin) {
  const Amount& every = w.config.run.checkpoint_every;
  if (every.value <= 0 || !w.folder.writes()) return;
  if (every.is_time()) {
    save_every_s_ = every.seconds();
    return;
  }
  // At most one a step of all workers, so that they agree on which ones there are.
  save_every_ =
      std::max(in_samples(every), static_cast<double>(w.config.gradient_samples() * w.place.size));
  save_at_ = (std::floor(w.start_samples / save_every_) + 1) * save_every_;
}

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
  ++steps_;
  w_.checkpoints.poll();
  if (save_every_s_ < INFINITY) appoint(seen);
  // An estimate may be beyond the end, where the others will not be.
  if (seen >= save_at_ && save_at_ <= w_.total_samples) save_on_the_way(seen);
}

void Milestones::save_on_the_way(double seen) {
  double at = save_at_;
  if (save_every_ < INFINITY) {
    at = std::max(at, std::floor(std::min(seen, w_.total_samples) / save_every_) * save_every_);
    save_at_ = at + save_every_;
  } else {
    save_at_ = INFINITY;
  }
  const std::string label = checkpoint_label(at);
  const auto due = Clock::now();
  const bool free = w_.checkpoints.ends_within(kLongestWait);
  saved_ = Clock::now();
  const double waited = seconds_between(due, saved_);
  if (!free) {
    w_.warn(
        fmt::format("checkpoint {} is left out: the one before, {}, is still being written, "
                    "{:.0f} s after this one was due",
                    label, w_.checkpoints.last_label(), waited));
    return;
  }
  if (waited > 1)
    w_.warn(fmt::format("training waited {:.1f} s until checkpoint {} was written; with a disk of "
                        "this speed run.checkpoint_every should be longer",
                        waited, w_.checkpoints.last_label()),
            !std::exchange(told_of_waiting_, true));
  w_.checkpoints.save(label);
}

void Milestones::appoint(double seen) {
  const bool several = w_.place.size > 1;
  if (several && w_.group->control().notice() > std::max(seen, announced_) && save_at_ == INFINITY)
    announced_ = save_at_ = w_.group->control().notice();
  const auto now = Clock::now();
  if (w_.progress.silent() || save_at_ < INFINITY || w_.checkpoints.busy() ||
      seconds_between(saved_, now) < save_every_s_)
    return;
  if (!several) {
    save_at_ = seen;
    return;
  }
  // Far enough ahead that the message reaches all before they are there.
  const double step_s = seconds_between(began_, now) / static_cast<double>(steps_),
               steps =
                   std::max({8.0, 2.0 / step_s, 2.0 * static_cast<double>(w_.config.train.period),
                             2.0 * w_.place.size});
  announced_ = save_at_ =
      seen + std::ceil(steps) * static_cast<double>(w_.config.gradient_samples() * w_.place.size);
  for (int peer = 0; peer < w_.place.size; ++peer)
    if (peer != w_.place.rank)
      w_.group->control().send(peer, {.type = dist::MessageType::notice, .value = save_at_});
}

void Milestones::last() {
  // The estimate of the samples may have passed some, at which the others wait.
  if (w_.method->done()) look(INFINITY);
  if (!w_.config.run.final_checkpoint || stop_signal() || steps_ == 0) return;
  const double end = w_.patience.exhausted() ? evaluated_at_ : w_.total_samples;
  if (const std::string label = checkpoint_label(end); label != w_.checkpoints.last_label())
    w_.checkpoints.keep(label);
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
  evaluated_at_ = at;
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
