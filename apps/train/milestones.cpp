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

// After how many steps workers meet at the latest, if the method has such a setting; else 1.
double period_of(const Config& config) {
  const Settings all = config.all_settings([](const Amount&) { return 1.0; });
  const SettingValue* period = all.find("period");
  const i64* steps = period ? std::get_if<i64>(period) : nullptr;
  return steps ? static_cast<double>(*steps) : 1;
}

}  // namespace

Milestones::Milestones(const Plan& plan, Journal& journal, Trainer& trainer,
                       Checkpoints& checkpoints)
    : plan_(plan),
      journal_(journal),
      trainer_(trainer),
      checkpoints_(checkpoints),
      evaluations_(plan, journal, trainer),
      epoch_(plan.epoch),
      evaluate_at_(trainer.task.data->validates() ? first(plan.config.eval.every) : INFINITY),
      measure_at_(plan.several() ? first(plan.config.eval.consensus_every) : INFINITY),
      all_meet_(!plan.place.rejoin) {
  const Amount& every = plan.config.run.checkpoint_every;
  if (every.value <= 0 || !journal.folder.writes()) return;
  if (every.is_time()) {
    save_every_s_ = every.seconds();
    return;
  }
  // There is at most one in a step of all workers, so that they agree on which ones there are.
  save_every_ = std::max(plan_.in_samples(every), plan.samples_of_a_step());
  save_at_ = (std::floor(plan.start_samples / save_every_) + 1) * save_every_;
}

double Milestones::first(const Amount& every) const {
  if (every.value <= 0) return INFINITY;
  const double step = plan_.in_samples(every);
  return (std::floor(plan_.start_samples / step) + 1) * step;
}

void Milestones::after_step() {
  const double seen = trainer_.method->samples_seen();
  look(seen);  // first, so that the checkpoint knows of it
  ++steps_;
  checkpoints_.poll();
  if (save_every_s_ < INFINITY) appoint(seen);
  // An estimate may be beyond the end, where the others will not be.
  if (seen >= save_at_ && save_at_ <= plan_.total_samples) save_on_the_way(seen);
}

void Milestones::save_on_the_way(double seen) {
  double at = save_at_;
  if (save_every_ < INFINITY) {
    at = std::max(at, std::floor(std::min(seen, plan_.total_samples) / save_every_) * save_every_);
    save_at_ = at + save_every_;
  } else {
    save_at_ = INFINITY;
  }
  const std::string label = checkpoint_label(at);
  const auto due = Clock::now();
  const bool free = checkpoints_.ends_within(kLongestWait);
  saved_ = Clock::now();
  const double waited = seconds_between(due, saved_);
  if (!free) {
    journal_.warn(
        fmt::format("checkpoint {} is left out: the one before, {}, is still being written, "
                    "{:.0f} s after this one was due",
                    label, checkpoints_.last_label(), waited));
    return;
  }
  if (waited > 1)
    journal_.warn(
        fmt::format("training waited {:.1f} s until checkpoint {} was written; with a disk of "
                    "this speed run.checkpoint_every should be longer",
                    waited, checkpoints_.last_label()),
        !std::exchange(told_of_waiting_, true));
  checkpoints_.save(label);
}

void Milestones::appoint(double seen) {
  const bool several = plan_.several();
  for (int peer = 0; several && save_at_ == INFINITY && peer < plan_.place.all_places(); ++peer) {
    if (peer == plan_.place.rank) continue;
    const auto told = trainer_.group->control().notice(dist::Notice::save, peer);
    if (told > std::max(seen, announced_)) announced_ = save_at_ = *told;
  }
  const auto now = Clock::now();
  if (!journal_.leads() || save_at_ < INFINITY || checkpoints_.busy() ||
      seconds_between(saved_, now) < save_every_s_)
    return;
  if (!several) {
    save_at_ = seen;
    return;
  }
  // Far enough ahead that the message reaches all before they are there.
  const double step_s = seconds_between(began_, now) / static_cast<double>(steps_),
               steps = std::max(
                   {8.0, 2.0 / step_s, 2.0 * period_of(plan_.config), 2.0 * plan_.place.size});
  announced_ = save_at_ = seen + std::ceil(steps) * plan_.samples_of_a_step();
  dist::announce(*trainer_.group, dist::Notice::save, save_at_);
}

void Milestones::last() {
  // The estimate of the samples may have passed some, at which the others wait.
  if (trainer_.method->done()) look(INFINITY);
  if (!plan_.config.run.final_checkpoint || stop_signal() || steps_ == 0) return;
  const double end = trainer_.patience.exhausted() ? evaluated_at_ : plan_.total_samples;
  if (const std::string label = checkpoint_label(end); label != checkpoints_.last_label())
    checkpoints_.keep(label);
}

// Goes through what is due in ascending order, the same on all workers. The end of the run
// evaluates, too.
void Milestones::look(double seen) {
  for (;;) {
    const double next = std::min(evaluate_at_, measure_at_);
    // where one stops, all do
    if (seen < next || next >= plan_.total_samples || trainer_.patience.exhausted()) return;
    // first what is measured: while all evaluate, gossip goes on without steps, and brings them
    // closer
    if (measure_at_ <= evaluate_at_)
      measure_consensus();
    else
      evaluate(seen);
  }
}

bool Milestones::together(const char* what, const std::function<void()>& step) {
  if (plan_.joined()) return false;  // they meet as they began
  // In rounds, the collectives are of all that take part now.
  if (plan_.method().synchronous && journal_.changed()) all_meet_ = false;
  if (plan_.several() && (trainer_.method->stats().alive < plan_.place.size || journal_.lost()))
    all_meet_ = false;
  if (!all_meet_) return false;
  try {
    step();
  } catch (const DistError& e) {
    all_meet_ = false;
    journal_.failed_together(what, e);
  }
  return all_meet_;
}

void Milestones::evaluate(double seen) {
  const double at = evaluate_at_, every = plan_.in_samples(plan_.config.eval.every);
  evaluate_at_ += every;
  evaluated_at_ = at;
  if (evaluations_.of_mean() &&
      together("evaluating the average", [&] { evaluations_.evaluate_mean(at); }))
    return;
  if (plan_.joined()) return;
  if (stop_signal()) return;  // it is not lost, but stopped, and so is this one
  if (evaluations_.of_mean() && !alone_)
    journal_.progress.note(
        fmt::format("eval     some worker {}: from now on each worker evaluates its own model{}",
                    journal_.lost() ? "was lost" : "has come",
                    plan_.config.train.patience > 0 ? ", and train.patience ends nothing" : ""));
  alone_ = true;
  // one for all that a step has passed, and none where the end of the run follows
  while (evaluate_at_ <= seen && evaluate_at_ < plan_.total_samples) evaluate_at_ += every;
  if (seen < plan_.total_samples) evaluations_.evaluate_own(seen);
}

// A collective at fixed numbers of samples: every worker reaches each of them at its own time and
// waits for the others there, while gossip goes on. The copy is taken between two events
// (quiesce). A worker that is done early takes part in the rest in last(), so none waits in vain.
void Milestones::measure_consensus() {
  const double at = measure_at_;
  measure_at_ += plan_.in_samples(plan_.config.eval.consensus_every);
  together("measuring the consensus distance", [&] {
    const trace::Scope scope("consensus distance");
    const auto began = Clock::now();
    Tensor copy;
    trainer_.method->quiesce([&] { copy = trainer_.params->values().clone(); });
    const double exact = dist::exact_consensus_distance(copy, trainer_.group->collectives());
    journal_.folder.log(
        "consensus",
        JsonObject()
            .add("samples", at)
            .add("epoch", at / epoch_)
            .add("exact", exact)
            .add("estimate", trainer_.method->stats().consensus_distance)
            .add("waited_s", std::chrono::duration<double>(Clock::now() - began).count()));
    journal_.show(at, {{"consensus_distance_exact", exact}});
  });
}

}  // namespace gossamer::apps
