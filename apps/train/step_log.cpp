// See step_log.h.
#include "gossamer/apps/train/step_log.h"

#include <cmath>
#include <map>

#include <fmt/format.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/edge_statistics.h"

namespace gossamer::apps {
namespace {

// So many skipped steps in a row mean that the run diverges or the scale is wrong.
constexpr i64 kMostSkipped = 20;

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

// Counts are totals of this worker; exchanges: the method's own and those of the control.
void log_control(JsonObject& row, const dist::MethodStats& s) {
  row.add("target", s.target).add("theta", s.theta).add("exchanges", s.exchanges);
  row.add("control_gossip", s.control.gossip)
      .add("control_exact", s.control.exact_averages)
      .add("control_measurements", s.control.measurements);
}

}  // namespace

namespace {

double asked_rate(const Plan& plan, Trainer& trainer) {
  double sum = 0;
  if (plan.place.all_places() > plan.place.size)
    return plan.config.train.rate;  // the graph changes
  if (plan.config.train.rate > 0 && !plan.method().synchronous)
    for (const int peer : trainer.graph.neighbours(plan.place.rank))
      sum += trainer.graph.rate(plan.place.rank, peer);
  return sum;
}

}  // namespace

StepLog::StepLog(const Plan& plan, Journal& journal, Trainer& trainer)
    : plan_(plan),
      journal_(journal),
      trainer_(trainer),
      epoch_(plan.epoch),
      asked_(asked_rate(plan, trainer)),
      logged_samples_(plan.start_samples),
      alive_(plan.place.size) {}

void StepLog::first_batch(const nn::DrawnBatch& batch, const nn::Position& at) {
  if (!journal_.board.writes() || !journal_.leads() || batch.batch.empty()) return;
  if (const auto pictures = trainer_.task.data->pictures_of(batch); !pictures.empty())
    journal_.board.images(plan_.board_step(at.samples), pictures);
}

void StepLog::before_step() {
  const auto& window = plan_.config.run.trace_steps;
  if (window.empty()) return;
  if (steps_ == window[0]) journal_.start_trace();
  if (steps_ == window[1] + 1) trace::stop();
}

void StepLog::before_update(nn::LossSum& losses, double learning_rate) {
  ++unread_;
  // The progress line shows the loss, but reading it may wait for a GPU, so not each update of a
  // terminal does.
  const bool to_show = journal_.progress.due() &&
                       (steps_ == 0 || Clock::now() - read_at_ >= std::chrono::seconds(2));
  if (losses.free_to_read() || since_log_ + 1 >= plan_.config.run.log_every || to_show)
    read_losses(losses, learning_rate);
}

void StepLog::read_losses(nn::LossSum& losses, double learning_rate) {
  if (unread_ == 0) return;
  const double sum = losses.take(), loss = sum / static_cast<double>(unread_);
  check(std::isfinite(loss), "the loss is ", std::isnan(loss) ? "not a number" : "infinite",
        unread_ > 1 ? " in the steps up to " : " at step ", steps_, " of worker ", plan_.place.rank,
        " (learning rate ", learning_rate,
        "); a smaller optim.learning_rate, a longer optim.warmup_epochs or optim.clip_norm=1 may "
        "help",
        plan_.config.train.dtype == "f16" ? "; so may train.dtype=bf16, where nothing ends at 65504"
                                          : "");
  const double kept = std::pow(0.95, static_cast<double>(unread_));
  smooth_loss_ = steps_ < unread_ ? loss : kept * smooth_loss_ + (1 - kept) * loss;
  loss_sum_ += sum;
  unread_ = 0;
  read_at_ = Clock::now();
}

void StepLog::after_step(double learning_rate) {
  ++steps_, ++since_log_;
  const double seen = trainer_.method->samples_seen();
  if (trainer_.task.data->stats().damaged > static_cast<i64>(listed_)) {
    const bool first = listed_ == 0;
    list_damaged();
    if (first)
      journal_.progress.warn(
          fmt::format("{}a damaged image, replaced by the next: {}; all are listed in "
                      "bad_images.txt",
                      plan_.several() ? fmt::format("worker {}: ", plan_.place.rank) : "",
                      trainer_.task.data->damaged()[0]));
  }
  if (since_log_ >= plan_.config.run.log_every) log_step(seen, learning_rate);
  if (!journal_.progress.silent()) show(seen, learning_rate, false);
}

void StepLog::last(nn::LossSum& losses, double learning_rate) {
  const double seen = trainer_.method->samples_seen();
  if (trainer_.patience.exhausted())
    journal_.progress.note(fmt::format("early    the run ends after {} (train.patience)",
                                       trainer_.patience.sentence()));
  read_losses(losses, learning_rate);
  if (since_log_ > 0) log_step(seen, learning_rate);
  if (steps_ > 0) show(seen, learning_rate, true);
  journal_.board.flush();
}

void StepLog::dealt_again(i64 batches) {
  const i64 samples = batches * plan_.config.batch_samples();
  trainer_.dealt_again += static_cast<double>(samples);
  const auto sharing = static_cast<int>(trainer_.method->sharing().workers.size());
  journal_.folder.log("dealt", JsonObject()
                                   .add("samples", trainer_.method->samples_seen())
                                   .add("workers", sharing)
                                   .add("samples_again", samples));
  const std::string again =
      samples == 0 ? ""
                   : fmt::format("{} {} again, which a worker that is gone had not brought; ",
                                 samples, trainer_.task.data->unit());
  journal_.progress.note(
      fmt::format("dealt    {}{} now {} a step of {:.0f}", again, counted(sharing, "worker"),
                  sharing == 1 ? "computes" : "share", plan_.samples_of_a_step()));
}

void StepLog::list_damaged() {
  const std::vector<std::string> all = trainer_.task.data->damaged();
  journal_.folder.add_bad_images({all.begin() + static_cast<std::ptrdiff_t>(listed_), all.end()});
  listed_ = all.size();
}

void StepLog::log_step(double seen, double learning_rate) {
  const dist::MethodStats s = trainer_.method->stats();
  const data::LoaderStats d = trainer_.task.data->stats();
  const double loss = loss_sum_ / static_cast<double>(since_log_);
  JsonObject row;
  row.add("step", s.gradients)
      .add("samples", seen)
      .add("epoch", seen / epoch_)
      .add("loss", loss)
      .add("learning_rate", learning_rate);
  for (const auto& [name, value] : trainer_.task.data->figures()) row.add(name, value);
  row.add("data_wait_s", d.wait_s)
      .add("data_idle_s", d.idle_s)
      .add("data_ready", d.ready)
      .add("exposed_s", s.exposed_s);
  row.add("damaged_images", d.damaged).add("eta", s.eta).add("alive", s.alive);
  row.add("consensus_distance", s.consensus_distance);
  if (plan_.method().controls) log_control(row, s);
  log_skipped(row);
  journal_.folder.log("step", row);
  if (journal_.leads()) journal_.folder.begin_new_log();
  list_damaged();
  if (!plan_.config.run.log_exchanges &&
      (s.exchanges > logged_.exchanges || s.failed > logged_.failed ||
       s.refused > logged_.refused)) {
    i64 staleness = 0, repeats = 0;
    double distance = 0;
    std::map<int, i64> with;  // since the last line: exchanges with each peer
    for (const dist::EdgeStats& e : s.edges)
      staleness += e.staleness_sum, repeats += e.repeats, distance += e.distance_sum,
          with[e.peer] += e.exchanges;
    for (const dist::EdgeStats& e : logged_.edges)
      staleness -= e.staleness_sum, repeats -= e.repeats, distance -= e.distance_sum,
          with[e.peer] -= e.exchanges;
    const i64 exchanges = s.exchanges - logged_.exchanges;
    JsonObject peers;
    for (const auto& [peer, count] : with)
      if (count > 0) peers.add(std::to_string(peer), count);
    journal_.folder.log(
        "exchange",
        JsonObject()
            .add("step", s.gradients)
            .add("samples", seen)
            .add("exchanges", exchanges)
            .add("failed", s.failed - logged_.failed)
            .add("refused", s.refused - logged_.refused)
            .add("transfer_s", s.transfer_s - logged_.transfer_s)
            .add("bytes_sent", s.bytes_sent - logged_.bytes_sent)
            .add("staleness", ratio(static_cast<double>(staleness), static_cast<double>(exchanges)))
            .add("distance", ratio(distance, static_cast<double>(exchanges)))
            .add("repeats", repeats)
            .add("peers", peers)
            .add("consensus_distance", s.consensus_distance));
  }
  const auto now = Clock::now();
  const double took = std::chrono::duration<double>(now - logged_at_).count();
  journal_.show(seen, {{"loss", loss},
                       {"learning_rate", learning_rate},
                       {"epoch", seen / epoch_},
                       {trainer_.task.data->unit() + "_per_s",
                        ratio(std::max(0.0, seen - logged_samples_), took)},
                       {"consensus_distance", s.consensus_distance},
                       {"exchanges_per_gradient",
                        ratio(static_cast<double>(s.exchanges), static_cast<double>(s.gradients))},
                       {"workers_alive", s.alive}});
  trace::counter(
      trainer_.task.data->rate_name(),
      ratio(static_cast<double>(since_log_) * plan_.samples_of_a_step() / plan_.place.size, took));
  trace::counter("consensus distance", s.consensus_distance);
  trace::counter("loss", loss);
  logged_ = s;
  logged_at_ = now;
  logged_samples_ = seen;
  loss_sum_ = 0, since_log_ = 0;
}

// Called with the log lines, not in each step, because reading waits for a GPU.
void StepLog::log_skipped(JsonObject& row) {
  if (!trainer_.params->overflow().defined()) return;
  const i64 skipped = trainer_.params->skipped_steps();
  row.add("skipped_steps", skipped);
  skipped_in_a_row_ = skipped - skipped_ == since_log_ ? skipped_in_a_row_ + since_log_ : 0;
  skipped_ = skipped;
  check(skipped_in_a_row_ < kMostSkipped, "the gradients of worker ", plan_.place.rank,
        " overflowed in each of the last ", skipped_in_a_row_,
        " steps, which were all left out: train.loss_scale = ",
        static_cast<i64>(trainer_.params->loss_scale()),
        " is too large; use a smaller one, or train.dtype=bf16");
}

void StepLog::show(double seen, double learning_rate, bool last) {
  const dist::MethodStats s = trainer_.method->stats();
  // Workers that leave because the run was stopped are not dead.
  if (!stop_signal()) alive_ = s.alive;
  journal_.progress.update(
      {.samples = seen,
       .total = plan_.total_samples,
       .epoch_size = epoch_,
       .step = plan_.config.task == "pictures" ? 0 : plan_.samples_of_a_step(),
       .unit = trainer_.task.data->unit(),
       .loss = smooth_loss_,
       .learning_rate = learning_rate,
       .data_wait_s = trainer_.task.data->stats().wait_s,
       .exchanges_per_step =
           ratio(static_cast<double>(s.exchanges), static_cast<double>(s.gradients)),
       .asked_per_step = dist::rate_reached(asked_, static_cast<double>(s.exchanges),
                                            static_cast<double>(s.gradients))
                             ? 0
                             : asked_,
       .consensus = s.consensus_distance,
       .exchanges = plan_.exchanges(),
       .alive = alive_,
       .workers = plan_.place.size},
      last);
}

}  // namespace gossamer::apps
