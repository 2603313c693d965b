// See bookkeeper.h.
#include "gossamer/apps/report/bookkeeper.h"

#include <cmath>

#include <fmt/core.h>

#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/finish.h"

namespace gossamer::apps {
namespace {

// steps in a row whose gradients overflow: a diverging run, or a wrong scale
constexpr i64 kHopeless = 20;

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

// So far; exchanges: of this worker, the method's own and control's.
void log_control(JsonObject& row, const dist::MethodStats& s) {
  row.add("target", s.target).add("theta", s.theta).add("exchanges", s.exchanges);
  row.add("control_gossip", s.control.gossip)
      .add("control_exact", s.control.exact_averages)
      .add("control_measurements", s.control.measurements);
}

}  // namespace

Bookkeeper::Bookkeeper(Worker& w)
    : w_(w),
      epoch_(static_cast<double>(w.train_set->size())),
      eval_(next(w.config.eval.every)),
      save_(next(w.config.run.checkpoint_every)),
      measure_(next(w.config.eval.consensus_every)),
      logged_samples_(w.start_samples),
      measures_(!w.place.rejoin) {}

double Bookkeeper::next(double every_epochs) const {
  if (every_epochs <= 0) return INFINITY;
  const double step = every_epochs * epoch_;
  return (std::floor(w_.start_samples / step) + 1) * step;
}

void Bookkeeper::before_step() {
  const auto& window = w_.config.run.trace_steps;
  if (window.empty()) return;
  if (steps_ == window[0]) w_.start_trace();
  if (steps_ == window[1] + 1) trace::stop();
}

void Bookkeeper::before_update(double learning_rate) {
  ++unseen_;
  if (losses->free_to_read() || since_log_ + 1 >= w_.config.run.log_every) look(learning_rate);
}

void Bookkeeper::look(double learning_rate) {
  if (unseen_ == 0) return;
  const double sum = losses->take(), loss = sum / static_cast<double>(unseen_);
  check(std::isfinite(loss), "the loss is ", loss,
        unseen_ > 1 ? " in the steps up to " : " at step ", steps_, " of worker ", w_.place.rank,
        " (learning rate ", learning_rate,
        "); a smaller optim.learning_rate, a longer optim.warmup_epochs or optim.clip_norm=1 may "
        "help",
        w_.config.train.dtype == "f16" ? "; so may train.dtype=bf16, where nothing ends at 65504"
                                       : "");
  const double kept = std::pow(0.95, static_cast<double>(unseen_));
  smooth_loss_ = steps_ < unseen_ ? loss : kept * smooth_loss_ + (1 - kept) * loss;
  loss_sum_ += sum;
  unseen_ = 0;
}

void Bookkeeper::after_step(double learning_rate) {
  ++steps_, ++since_log_;
  const double seen = w_.method->samples_seen();
  if (since_log_ >= w_.config.run.log_every) log_step(seen, learning_rate);
  if (!w_.progress.silent()) show(seen, learning_rate, false);
  if (seen >= save_) {
    save(fmt::format("epoch-{:07.2f}", save_ / epoch_));
    save_ += w_.config.run.checkpoint_every * epoch_;
  }
  if (seen >= eval_ && seen < w_.total_samples) {
    evaluate_own(seen);
    eval_ += w_.config.eval.every * epoch_;
  }
  measure_consensus(seen);
}

void Bookkeeper::last(double learning_rate) {
  const double seen = w_.method->samples_seen();
  look(learning_rate);
  // those that its estimate has jumped over: the others wait there
  if (w_.method->done()) measure_consensus(INFINITY);
  if (since_log_ > 0) log_step(seen, learning_rate);
  if (steps_ > 0) show(seen, learning_rate, true);
  w_.board.flush();
}

void Bookkeeper::save(const std::string& label) {
  if (!w_.folder.writes()) return;
  w_.at.samples = w_.method->samples_seen();
  Position at = w_.at;
  // that epoch is whole, in whatever order the next one comes
  if (at.step >= w_.loader->steps()) at = {at.samples, at.epoch + 1, 0};
  save_checkpoint(w_.folder.path(), label, w_.place.rank, w_.place.size, w_.state(), at, w_.order,
                  w_.config.run.keep);
}

void Bookkeeper::list_damaged() {
  const std::vector<std::string> all = w_.loader->damaged();
  w_.folder.add_bad_images({all.begin() + static_cast<std::ptrdiff_t>(listed_), all.end()});
  listed_ = all.size();
}

void Bookkeeper::log_step(double seen, double learning_rate) {
  const dist::MethodStats s = w_.method->stats();
  const data::LoaderStats d = w_.loader->stats();
  const double loss = loss_sum_ / static_cast<double>(since_log_);
  JsonObject row;
  row.add("step", s.gradients)
      .add("samples", seen)
      .add("epoch", seen / epoch_)
      .add("loss", loss)
      .add("learning_rate", learning_rate);
  if (w_.cache) row.add("data_cached_mb", 1e-6 * static_cast<double>(w_.cache->used()));
  row.add("data_wait_s", d.wait_s)
      .add("data_idle_s", d.idle_s)
      .add("data_ready", d.ready)
      .add("exposed_s", s.exposed_s);
  row.add("damaged_images", d.damaged).add("eta", s.eta).add("alive", s.alive);
  row.add("consensus_distance", s.consensus_distance);
  if (w_.config.train.method == "consensus-control") log_control(row, s);
  log_skipped(row);
  w_.folder.log("step", row);
  list_damaged();
  if (!w_.config.run.log_exchanges &&
      (s.exchanges > logged_.exchanges || s.failed > logged_.failed)) {
    i64 staleness = 0;
    for (const dist::EdgeStats& e : s.edges) staleness += e.staleness_sum;
    for (const dist::EdgeStats& e : logged_.edges) staleness -= e.staleness_sum;
    const i64 exchanges = s.exchanges - logged_.exchanges;
    w_.folder.log("exchange", JsonObject()
                                  .add("step", s.gradients)
                                  .add("samples", seen)
                                  .add("exchanges", exchanges)
                                  .add("failed", s.failed - logged_.failed)
                                  .add("transfer_s", s.transfer_s - logged_.transfer_s)
                                  .add("staleness", ratio(static_cast<double>(staleness),
                                                          static_cast<double>(exchanges)))
                                  .add("consensus_distance", s.consensus_distance));
  }
  const auto now = Clock::now();
  const double took = std::chrono::duration<double>(now - logged_at_).count();
  to_board(seen, {{"loss", loss},
                  {"learning_rate", learning_rate},
                  {"epoch", seen / epoch_},
                  {"images_per_s", ratio(std::max(0.0, seen - logged_samples_), took)},
                  {"consensus_distance", s.consensus_distance},
                  {"exchanges_per_gradient",
                   ratio(static_cast<double>(s.exchanges), static_cast<double>(s.gradients))},
                  {"workers_alive", s.alive}});
  trace::counter("images/s", ratio(static_cast<double>(since_log_ * w_.config.train.batch), took));
  trace::counter("consensus distance", s.consensus_distance);
  trace::counter("loss", loss);
  logged_ = s;
  logged_at_ = now;
  logged_samples_ = seen;
  loss_sum_ = 0, since_log_ = 0;
}

// Read here and not in each step: on a GPU it is a wait.
void Bookkeeper::log_skipped(JsonObject& row) {
  if (!w_.params->overflow().defined()) return;
  const i64 skipped = w_.params->skipped_steps();
  row.add("skipped_steps", skipped);
  skipped_in_a_row_ = skipped - skipped_ == since_log_ ? skipped_in_a_row_ + since_log_ : 0;
  skipped_ = skipped;
  check(skipped_in_a_row_ < kHopeless, "the gradients of worker ", w_.place.rank,
        " overflowed in each of the last ", skipped_in_a_row_,
        " steps, which were all left out: train.loss_scale = ",
        static_cast<i64>(w_.params->loss_scale()),
        " is too large; use a smaller one, or train.dtype=bf16");
}

// TensorBoard's step: gradients of all workers.
void Bookkeeper::to_board(double samples,
                          const std::vector<std::pair<std::string, double>>& values) {
  if (w_.place.rank == 0)
    w_.board.scalars(static_cast<i64>(samples / static_cast<double>(w_.config.train.batch)),
                     values);
}

void Bookkeeper::show(double seen, double learning_rate, bool last) {
  const dist::MethodStats s = w_.method->stats();
  w_.progress.update({.samples = seen,
                      .total = w_.total_samples,
                      .epoch_size = epoch_,
                      .loss = smooth_loss_,
                      .learning_rate = learning_rate,
                      .data_wait_s = w_.loader->stats().wait_s,
                      .exchanges_per_step =
                          ratio(static_cast<double>(s.exchanges), static_cast<double>(s.gradients)),
                      .consensus = s.consensus_distance,
                      .alive = s.alive,
                      .workers = w_.place.size},
                     last);
}

// Each worker's own model on its own share, no waiting for others; the shares together are the
// whole set.
void Bookkeeper::evaluate_own(double seen) {
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
  to_board(seen, {{"top1", c.top1 / c.images}, {"val_loss", c.loss / c.images}});
  w_.progress.note(fmt::format(
      "epoch {:.2f}: worker 0's model on its share: top-1 {:.2f} %, loss {:.3f} ({:.0f} images)",
      seen / epoch_, 100 * c.top1 / c.images, c.loss / c.images, c.images));
}

// Collectives at fixed numbers of samples: every worker comes to each of them, at its own time, and
// waits for the others there; gossip goes on meanwhile. quiesce() makes the copy whole. Who is done
// early catches up in last(), so none waits in vain.
void Bookkeeper::measure_consensus(double seen) {
  for (; seen >= measure_ && measure_ < w_.total_samples;
       measure_ += w_.config.eval.consensus_every * epoch_) {
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
              .add("samples", measure_)
              .add("epoch", measure_ / epoch_)
              .add("exact", exact)
              .add("estimate", w_.method->stats().consensus_distance)
              .add("waited_s", std::chrono::duration<double>(Clock::now() - began).count()));
      to_board(measure_, {{"consensus_distance_exact", exact}});
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
