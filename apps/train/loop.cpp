// The training loop. Decentralisation is one line of it: method->step() is a gradient event;
// exchanges go on in the background.
#include "gossamer/apps/train/loop.h"

#include <utility>

#include <fmt/format.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/train/milestones.h"
#include "gossamer/apps/train/step_log.h"
#include "gossamer/apps/train/worker.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"

namespace gossamer::apps {

nn::GradientStep::Graph step_graph(const std::string& cuda_graph, GraphCapture capture,
                                   std::function<void(const std::string&)> log) {
  if (cuda_graph == "off") return {};
  return {.capture = std::move(capture),
          .on_failure = [must = cuda_graph == "on", log = std::move(log)](const std::string& why) {
            check<ConfigError>(!must, "train.cuda_graph=on: a step cannot be captured: ", why,
                               "; use auto or off");
            if (log) log("steps run eagerly, not as a CUDA graph: " + why);
          }};
}

namespace {

// The worker that speaks shows TensorBoard the first batch.
void show(Worker& w, const nn::DrawnBatch& batch, const nn::Position& at) {
  if (!w.board.writes() || w.progress.silent() || batch.batch.empty()) return;
  w.task->show(w.board,
               static_cast<i64>(at.samples / static_cast<double>(w.config.gradient_samples())),
               batch);
}

}  // namespace

nn::GradientStep gradient_step(Worker& w, std::function<double()> learning_rate) {
  return nn::GradientStep(
      {.net = *w.net,
       .params = *w.params,
       .loss_of = [&w](const nn::StepBatch& batch,
                       const Tensor& numbers) { return w.task->loss(*w.net, batch, numbers); },
       .before_backward = [&w, rate = std::move(learning_rate)] { w.method->prepare(rate()); },
       .batches = static_cast<int>(w.config.train.accumulate)},
      step_graph(w.device.is_cpu() ? "off" : w.config.train.cuda_graph,
                 cuda_graph_capture(w.device),
                 [&w](const std::string& line) { w.progress.note("graph    " + line); }));
}

void train_loop(Worker& w, StepLog& log) {
  nn::GradientStep gradient =
      gradient_step(w, [&] { return w.schedule(w.method->samples_seen()); });
  Milestones milestones(w);

  // Brings the batch at `next`; false at the end of an epoch. ahead: samples that all workers will
  // have seen in the meantime.
  nn::Position next = w.at;
  bool shown = false;
  const auto bring_batch = [&](double ahead) {
    const trace::Scope scope("data");
    const nn::DrawnBatch batch = w.task->next(next, w.part(ahead));
    if (!std::exchange(shown, true)) show(w, batch, next);
    if (!batch.batch.empty())
      gradient.bring(batch);
    else
      next = {next.samples, next.epoch + 1, 0};
    return !batch.batch.empty();
  };

  const auto samples_of_a_step = static_cast<double>(w.config.gradient_samples() * w.place.size);
  double learning_rate = 0;
  bool brought = false;
  w.net->train();
  for (i64 step = 0; !w.method->done() && !w.patience.exhausted() && !stop_signal();) {
    if (!gradient.begun()) log.before_step();
    const trace::Scope scope("step", step);
    if (!brought && !bring_batch(0)) continue;
    const nn::Position here = next;
    if (const bool complete = gradient.compute(); ++next.step, !complete) {
      brought = bring_batch(0);
      gradient.step_ends();
      continue;
    }
    w.at = here;
    // Before the update, which may wait for the device or for other workers.
    brought = w.method->samples_seen() + samples_of_a_step < w.total_samples &&
              bring_batch(samples_of_a_step);

    log.before_update(gradient.losses(), learning_rate);
    learning_rate = w.schedule(w.method->samples_seen());
    if (w.injector) w.injector->before_step(step);
    {
      const trace::Scope update("update");
      w.method->step(learning_rate);
      if (w.ema) w.method->read_model([&] { w.ema->update(*w.params); });
    }
    gradient.step_ends();
    ++w.at.step, ++step;
    log.after_step(learning_rate);
    milestones.after_step();
    if (w.injector) w.injector->after_step();
  }
  // The resumed run computes the batches of an unfinished gradient again.
  gradient.abandon();
  milestones.last();
  if (w.patience.exhausted())
    w.progress.note(
        fmt::format("early    the run ends after {} (train.patience)", w.patience.sentence()));
  log.last(gradient.losses(), learning_rate);
}

}  // namespace gossamer::apps
