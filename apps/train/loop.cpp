// The training loop. Decentralisation is one line of it: method->step() is a gradient event;
// exchanges go on in the background.
#include "gossamer/apps/train/loop.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/train/milestones.h"
#include "gossamer/apps/train/step_log.h"
#include "gossamer/apps/train/worker.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/trace.h"
#include "gossamer/nn/layers.h"

namespace gossamer::apps {

// --- the gradient

namespace {

std::vector<Tensor> counters_of(nn::Module& net) {
  std::vector<Tensor> out;
  for (const NamedTensor& buffer : net.buffers())
    if (buffer.tensor.dtype() == DType::i64) out.push_back(buffer.tensor);
  return out;
}

CapturedStep::Options capture_options(GradientStep::Graph graph, nn::Module& net,
                                      FlatParams& params) {
  const auto on_failure = [mode = graph.mode, log = std::move(graph.log)](const std::string& why) {
    check<ConfigError>(mode != GraphMode::on,
                       "train.cuda_graph=on: a step cannot be captured: ", why,
                       "; use auto or off");
    if (log) log("steps run eagerly, not as a CUDA graph: " + why);
  };
  return {.enabled = graph.mode != GraphMode::off,
          .capture = with_ready_gradients(params, std::move(graph.capture)),
          .counters = counters_of(net),
          .on_failure = on_failure};
}

}  // namespace

GraphMode graph_mode(const std::string& name) {
  if (name == "auto") return GraphMode::automatic;
  check<ConfigError>(name == "on" || name == "off", "train.cuda_graph = \"", name,
                     "\"; it must be one of auto, on, off");
  return name == "on" ? GraphMode::on : GraphMode::off;
}

GradientStep::GradientStep(Parts parts, Graph graph, bool like_gpu)
    : parts_(std::move(parts)),
      inputs_(parts_.params.values().device(), like_gpu),
      losses_(parts_.params.values().device(), like_gpu),
      first_graph_(capture_options(graph, parts_.net, parts_.params)),
      later_graph_(capture_options(std::move(graph), parts_.net, parts_.params)) {
  const auto disable = [](CapturedStep& step) {
    step.disable("Dropout draws from a counter on the host, so a graph would repeat one mask");
  };
  for (nn::Module* module : parts_.net.modules())
    if (const auto* drop = dynamic_cast<nn::Dropout*>(module); drop && drop->probability() > 0) {
      disable(first_graph_);
      if (parts_.batches > 1) disable(later_graph_);
      break;
    }
}

void GradientStep::bring(const DrawnBatch& drawn) { inputs_.bring(drawn.batch, drawn.numbers); }

bool GradientStep::compute() {
  const StepInputs::Views in = inputs_.take();
  const bool first = done_ == 0, last = done_ + 1 == parts_.batches;
  if (last && parts_.before_backward) parts_.before_backward();
  CapturedStep& graph = first ? first_graph_ : later_graph_;
  graph.run({in.batch.shape, in.batch.tensors[0].data()}, [this, in, first] {
    const float share = 1 / static_cast<float>(parts_.batches);
    Tensor loss;
    {
      const trace::Scope forward("forward");
      loss = parts_.loss_of(in.batch, in.numbers);
    }
    const trace::Scope backward("backward");
    if (first) parts_.params.zero_grad();
    parts_.params.backward(loss, share);
    losses_.add(loss, share);
  });
  done_ = last ? 0 : done_ + 1;
  return last;
}

// --- the loop

namespace {

// Running statistics and counters of a network as they were before a gradient of several batches.
class Buffers {
 public:
  Buffers(nn::Module& net, const FlatParams& params) : buffers_(counters_of(net)) {
    buffers_.push_back(params.buffers());
  }
  void keep() {
    if (kept_.empty())
      for (const Tensor& b : buffers_) kept_.push_back(b.clone());
    for (std::size_t i = 0; i < kept_.size(); ++i) kept_[i].copy_from(buffers_[i]);
  }
  void restore() {
    for (std::size_t i = 0; i < kept_.size(); ++i) buffers_[i].copy_from(kept_[i]);
  }

 private:
  std::vector<Tensor> buffers_, kept_;
};

}  // namespace

namespace {

// The worker that speaks shows TensorBoard the first batch.
void show(Worker& w, const DrawnBatch& batch, const Position& at) {
  if (!w.board.writes() || w.progress.silent() || batch.batch.empty()) return;
  w.task->show(w.board,
               static_cast<i64>(at.samples / static_cast<double>(w.config.gradient_samples())),
               batch);
}

}  // namespace

GradientStep gradient_step(Worker& w, std::function<double()> learning_rate) {
  return GradientStep(
      {.net = *w.net,
       .params = *w.params,
       .loss_of = [&w](const StepBatch& batch,
                       const Tensor& numbers) { return w.task->loss(*w.net, batch, numbers); },
       .before_backward = [&w, rate = std::move(learning_rate)] { w.method->prepare(rate()); },
       .batches = static_cast<int>(w.config.train.accumulate)},
      {.mode = w.device.is_cpu() ? GraphMode::off : graph_mode(w.config.train.cuda_graph),
       .capture = cuda_graph_capture(w.device),
       .log = [&w](const std::string& line) { w.progress.note("graph    " + line); }});
}

void train_loop(Worker& w, StepLog& log) {
  GradientStep gradient = gradient_step(w, [&] { return w.schedule(w.method->samples_seen()); });
  Milestones milestones(w);

  // Brings the batch at `next`; false at the end of an epoch. ahead: samples that all workers will
  // have seen in the meantime.
  Position next = w.at;
  bool shown = false;
  const auto bring_batch = [&](double ahead) {
    const trace::Scope scope("data");
    const DrawnBatch batch = w.task->next(next, w.part(ahead));
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
  Buffers before(*w.net, *w.params);
  for (i64 step = 0; !w.method->done() && !w.patience.exhausted() && !stop_signal();) {
    if (!gradient.begun()) {
      log.before_step();
      if (w.config.train.accumulate > 1) before.keep();
    }
    const trace::Scope scope("step", step);
    if (!brought && !bring_batch(0)) continue;
    const Position here = next;
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
    if (w.injector) w.injector->before_step(step, [] { return stop_signal() != 0; });
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
  if (gradient.begun()) before.restore();
  milestones.last();
  if (w.patience.exhausted())
    w.progress.note(
        fmt::format("early    the run ends after {} (train.patience)", w.patience.sentence()));
  log.last(gradient.losses(), learning_rate);
}

}  // namespace gossamer::apps
