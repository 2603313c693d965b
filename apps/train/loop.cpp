// The training loop. Decentralisation is one line of it: method->step() is a gradient event;
// exchanges go on in the background.
#include "gossamer/apps/train/loop.h"

#include <optional>
#include <utility>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/train/common_stop.h"
#include "gossamer/apps/train/milestones.h"
#include "gossamer/apps/train/step_log.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"

namespace gossamer::apps {

GraphOptions step_graph(const std::string& cuda_graph, GraphCapture capture,
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

// Of one gradient of this worker.
int own_batches(const Plan& plan, const Trainer& trainer) {
  const auto& train = plan.config.train;
  if (train.global_batch == 0) return static_cast<int>(train.accumulate);
  return static_cast<int>(
      trainer.method->sharing().share(train.global_batch / train.batch, plan.place.rank));
}

}  // namespace

nn::GradientStep gradient_step(const Plan& plan, Journal& journal, Trainer& trainer,
                               std::function<double()> learning_rate, GraphCapture fake) {
  const bool like_gpu = fake != nullptr, eager = plan.device.is_cpu() && !like_gpu;
  return nn::GradientStep(
      {.net = *trainer.net,
       .params = *trainer.params,
       .loss_of =
           [&trainer](const nn::StepBatch& batch, const Tensor& numbers) {
             return trainer.task.model->loss(*trainer.net, batch, numbers);
           },
       .before_backward = [&trainer,
                           rate = std::move(learning_rate)] { trainer.method->prepare(rate()); },
       .batches = own_batches(plan, trainer),
       .divisor = trainer.dealing && plan.method().sums_gradients
                      ? trainer.dealing->batches_of_step()
                      : 0},
      step_graph(
          eager ? "off" : plan.config.train.cuda_graph,
          like_gpu ? std::move(fake) : cuda_graph_capture(plan.device),
          [&journal](const std::string& line) { journal.progress.note("graph    " + line); }),
      like_gpu);
}

void train_loop(const Plan& plan, Trainer& trainer, nn::GradientStep& gradient, StepLog& log,
                Milestones& milestones, CommonStop& stop) {
  dist::Method& method = *trainer.method;
  Dealing* const dealing = trainer.dealing.get();
  // Brings the batch at `next`; false at the end of an epoch. ahead: samples that all workers will
  // have seen in the meantime.
  nn::Position next = trainer.at;
  bool shown = false;
  const auto bring_batch = [&](double ahead) {
    const trace::Scope scope("data");
    if (dealing) next = {next.samples, dealing->next().epoch, dealing->next().step};
    const nn::DrawnBatch batch =
        trainer.task.data->next(next, plan.part(method.samples_seen() + ahead));
    if (!std::exchange(shown, true)) log.first_batch(batch, next);
    if (batch.batch.empty()) {
      next = {next.samples, next.epoch + 1, 0};
      return false;
    }
    gradient.bring(batch);
    if (dealing) dealing->taken();
    return true;
  };

  const double samples_of_a_step = plan.samples_of_a_step();
  double learning_rate = 0;
  bool brought = false;
  trainer.net->train();
  for (i64 step = 0; !method.done() && !trainer.patience.exhausted() && !stop.stops_alone();) {
    if (!gradient.begun()) log.before_step();
    const trace::Scope scope("step", step);
    if (!brought && !bring_batch(0)) continue;
    if (!gradient.begun() && !stop.begins(method.samples_seen() + samples_of_a_step)) break;
    const nn::Position here = next;
    if (const bool complete = gradient.compute(); ++next.step, !complete) {
      brought = bring_batch(0);
      gradient.step_ends();
      continue;
    }
    if (!dealing) trainer.at = here;
    // It is brought before the update, which may wait for the device or for other workers.
    brought = method.samples_seen() + samples_of_a_step < plan.total_samples &&
              bring_batch(samples_of_a_step);

    log.before_update(gradient.losses(), learning_rate);
    learning_rate = plan.schedule(method.samples_seen());
    if (trainer.injector) trainer.injector->before_step(step, [] { return stop_signal() != 0; });
    {
      const trace::Scope update("update");
      method.step(learning_rate);
      if (trainer.ema) method.read_model([&] { trainer.ema->update(*trainer.params); });
    }
    gradient.step_ends();
    ++step;
    if (!dealing) {
      ++trainer.at.step;
    } else {
      if (const std::optional<i64> again = dealing->after_step()) {
        if (std::exchange(brought, false)) gradient.drop();
        if (!method.done()) log.dealt_again(*again);
      }
      const data::Position left = dealing->left();
      trainer.at = {trainer.at.samples, left.epoch, left.step};
    }
    gradient.set_batches(own_batches(plan, trainer));  // others may share the next step
    log.after_step(learning_rate);
    milestones.after_step();
    if (trainer.injector) trainer.injector->after_step();
    if (trainer.founders) trainer.founders->check();
  }
  // The resumed run computes the batches of an unfinished gradient again.
  gradient.abandon();
  milestones.last();
  log.last(gradient.losses(), learning_rate);
}

}  // namespace gossamer::apps
