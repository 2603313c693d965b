// The training loop. Decentralisation is one line of it: method->step() is a gradient event;
// exchanges go on in the background.
#include "gossamer/apps/train/loop.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/train/first_images.h"
#include "gossamer/apps/train/milestones.h"
#include "gossamer/apps/train/step_log.h"
#include "gossamer/apps/train/worker.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/core/trace.h"
#include "gossamer/data/mix.h"
#include "gossamer/nn/layers.h"

namespace gossamer::apps {

// --- the loss

TrainingLoss::TrainingLoss(const Config& c, int rank)
    : mix_{c.train.mixup, c.train.cutmix},
      smoothing_(static_cast<float>(c.optim.label_smoothing)),
      seed_(static_cast<std::uint64_t>(c.train.seed)),
      rank_(static_cast<std::uint64_t>(rank)) {}

TrainingLoss::Mix TrainingLoss::draw(int height, int width, const Position& at) const {
  if (!mix_.on()) return {};
  Rng rng(data::mix(seed_, data::mix(static_cast<std::uint64_t>(at.epoch), rank_)),
          data::mix(static_cast<std::uint64_t>(at.step), 0x6d6978 /* "mix" */));
  const data::MixPlan plan = data::draw_mix(mix_, height, width, rng);
  Mix out{};
  std::ranges::copy(plan.plan, out.begin());
  const float own = static_cast<float>(plan.own);
  out[6] = own, out[7] = 1 - own;
  return out;
}

namespace {

// mix_batch blends each image with the one before it; these are that image's labels.
Tensor labels_before(const Tensor& labels) {
  const i64 n = labels.shape(0);
  Tensor out = Tensor::empty(labels.shape(), labels.dtype(), labels.device());
  out.slice(0, 1).copy_from(labels.slice(n - 1, n));
  if (n > 1) out.slice(1, n).copy_from(labels.slice(0, n - 1));
  return out;
}

}  // namespace

Tensor TrainingLoss::mixed(const Tensor& images, const Tensor& mix) const {
  return mix_.on() ? mix_batch(images, mix.slice(0, 6)) : images;
}

Tensor TrainingLoss::operator()(nn::Module& net, const Tensor& images, const Tensor& labels,
                                const Tensor& mix) const {
  const CrossEntropyOptions options{.label_smoothing = smoothing_};
  const Tensor logits = net(mixed(images, mix));
  if (!mix_.on()) return cross_entropy(logits, labels, options);
  // Cross entropy is linear in its target, so the weighted sum of two is exactly the loss of the
  // mixed label.
  return add(mul(cross_entropy(logits, labels, options), mix.slice(6, 7)),
             mul(cross_entropy(logits, labels_before(labels), options), mix.slice(7, 8)));
}

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
    if (dynamic_cast<nn::Dropout*>(module)) {
      disable(first_graph_);
      if (parts_.batches > 1) disable(later_graph_);
      break;
    }
}

void GradientStep::bring(const data::Batch& batch, const Position& at) {
  const int side = static_cast<int>(batch.side());
  inputs_.bring(batch, parts_.loss_of.draw(side, side, at));
}

bool GradientStep::compute() {
  const StepInputs::Views in = inputs_.take();
  const bool first = done_ == 0, last = done_ + 1 == parts_.batches;
  if (last && parts_.before_backward) parts_.before_backward();
  const Tensor& pixels = in.batch.images.defined() ? in.batch.images : in.batch.bytes;
  CapturedStep& graph = first ? first_graph_ : later_graph_;
  graph.run({{in.batch.count(), in.batch.side()}, pixels.data()}, [this, in, first] {
    const float share = 1 / static_cast<float>(parts_.batches);
    Tensor loss;
    {
      const trace::Scope forward("forward");
      loss = parts_.loss_of(parts_.net, parts_.input_of(in.batch), in.batch.labels, in.numbers);
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

GradientStep gradient_step(Worker& w, std::function<double()> learning_rate) {
  return GradientStep(
      {.net = *w.net,
       .params = *w.params,
       .input_of = w.prepare,
       .loss_of = TrainingLoss(w.config, w.place.rank),
       .before_backward = [&w, rate = std::move(learning_rate)] { w.method->prepare(rate()); },
       .batches = static_cast<int>(w.config.train.accumulate)},
      {.mode = w.device.is_cpu() ? GraphMode::off : graph_mode(w.config.train.cuda_graph),
       .capture = cuda_graph_capture(w.device),
       .log = [&w](const std::string& line) { w.progress.note("graph    " + line); }});
}

void train_loop(Worker& w, StepLog& log) {
  const TrainingLoss loss_of(w.config, w.place.rank);
  GradientStep gradient = gradient_step(w, [&] { return w.schedule(w.method->samples_seen()); });
  Milestones milestones(w);

  // Brings the batch at `next`; false at the end of an epoch. ahead: images that all workers will
  // have seen in the meantime.
  Position next = w.at;
  bool shown = false;
  const auto bring_batch = [&](double ahead) {
    const trace::Scope scope("data");
    w.loader->set_size(w.picture_size(ahead));
    const data::Batch batch = w.loader->next();
    if (!std::exchange(shown, true)) show_images(w, loss_of, batch, next);
    if (batch.labels.defined())
      gradient.bring(batch, next);
    else
      next = {next.samples, next.epoch + 1, 0};
    return batch.labels.defined();
  };

  const auto images_of_a_step = static_cast<double>(w.config.gradient_images() * w.place.size);
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
    brought = w.method->samples_seen() + images_of_a_step < w.total_samples &&
              bring_batch(images_of_a_step);

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
  if (gradient.begun()) before.restore();
  milestones.last();
  if (w.patience.exhausted())
    w.progress.note(
        fmt::format("early    the run ends after {} (train.patience)", w.patience.sentence()));
  log.last(gradient.losses(), learning_rate);
}

}  // namespace gossamer::apps
