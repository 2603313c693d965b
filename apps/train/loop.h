// The training loop of one worker: take a batch, compute its loss and gradient, update, report.
#pragma once

#include <array>
#include <functional>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/pictures.h"
#include "gossamer/apps/train/step_inputs.h"
#include "gossamer/core/captured_step.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/update.h"
#include "gossamer/data/augment/mixup.h"
#include "gossamer/nn/module.h"

namespace gossamer::apps {

// The loss of one training batch: mixup or CutMix where the images are, label smoothing, cross
// entropy.
class TrainingLoss {
 public:
  TrainingLoss(const Config&, int rank);
  // How a batch is mixed: the plan of mix_batch (6 numbers), the weight of an image's own label,
  // and the weight of the label of the image before it. A function of seed, rank and position only,
  // so that a resumed run mixes the same way.
  using Mix = std::array<float, 8>;
  Mix draw(int height, int width, const Position&) const;
  // images: normalized [N, H, W, 3]. Returns what the network is given of them.
  Tensor mixed(const Tensor& images, const Tensor& mix) const;
  // images: normalized [N, H, W, 3]; labels: i32 [N]; mix: those numbers, f32 [8]; all on one
  // device. Returns the mean loss, [].
  Tensor operator()(nn::Module& net, const Tensor& images, const Tensor& labels,
                    const Tensor& mix) const;

 private:
  data::MixOptions mix_;
  float smoothing_;
  std::uint64_t seed_, rank_;
};

// The sum of the losses since the last take(). It lies on the device, so that adding is part of
// the step and only reading it waits for the device.
class LossSum {
 public:
  // like_gpu: behaves on a CPU as on a GPU, for tests.
  explicit LossSum(Device device, bool like_gpu = false)
      : sum_(Tensor::zeros({1}, DType::f32, device)), free_(device.is_cpu() && !like_gpu) {}
  void add(const Tensor& loss, float share = 1) {
    Tensor one = loss.detach().reshape({1});
    axpy(sum_, share, one);
  }
  bool free_to_read() const { return free_; }  // take() waits for nothing
  double take() {
    const double sum = static_cast<double>(sum_.item());
    sum_.zero();
    return sum;
  }

 private:
  Tensor sum_;
  bool free_;
};

// train.cuda_graph. automatic: a step is captured as a CUDA graph where that is possible; on: it is
// an error where it is not; off: never.
enum class GraphMode { automatic, on, off };
GraphMode graph_mode(const std::string& name);  // auto | on | off, else ConfigError

// The gradient of a batch, or of several whose gradients are added up: each is copied to the
// device, then forward and backward. On a GPU, the device's work is captured as a graph after a few
// steps. Events in the graph mark where the gradients of a bucket are complete; all buckets are
// reported as ready right after a launch, and their sums wait for the events on the device.
class GradientStep {
 public:
  struct Parts {
    nn::Module& net;
    FlatParams& params;
    const Pictures& input_of;  // what the network is given of a batch
    TrainingLoss loss_of;
    // Method::prepare; called before the work of a gradient's last batch is given to the device
    std::function<void()> before_backward;
    int batches = 1;  // of one gradient, which is the mean of theirs (train.accumulate)
  };
  struct Graph {
    GraphMode mode = GraphMode::off;
    GraphCapture capture;
    std::function<void(const std::string&)> log;
  };
  // like_gpu: behaves on a CPU as on a GPU, for tests. ConfigError if mode is `on` and the network
  // cannot be captured.
  GradientStep(Parts, Graph, bool like_gpu = false);

  // The batch of the next compute(). Brought right after a compute(), which on a GPU only enqueues
  // its work, it is copied on a stream of its own beside that work (step_inputs.h).
  void bring(const data::Batch&, const Position&);
  // True if that was the last batch of the gradient: FlatParams::grads() holds it, and losses()
  // includes its loss. Otherwise bring the next batch.
  bool compute();
  bool compute(const data::Batch& batch, const Position& at) {
    bring(batch, at);
    return compute();
  }
  bool begun() const { return done_ > 0; }   // some of the batches of a gradient are computed
  void step_ends() { inputs_.step_ends(); }  // call it when the update is enqueued
  LossSum& losses() { return losses_; }
  bool captured() const { return first_graph_.captured(); }

 private:
  Parts parts_;
  StepInputs inputs_;
  LossSum losses_;
  int done_ = 0;                            // batches of the current gradient
  CapturedStep first_graph_, later_graph_;  // later batches add to the gradients of the first
};

struct Worker;  // makes the model, its FlatParams, optimizer, method and loader, in this order
class StepLog;
// Of this worker's network, loss and device. learning_rate: of the update that follows.
GradientStep gradient_step(Worker&, std::function<double()> learning_rate);
// Trains until the method is done or a signal asks to stop; finish.cpp then calls Method::finish().
// A step: compute() of the batch that was brought, bring() of the next one, the update with
// method->step(), reports. All this runs in one thread, the training thread; ops divide their loops
// among the compute threads (core/parallel.h), and a GPU works behind it. Beside it run the
// loader's threads, which decode batches ahead (data/loader.h), and the communication thread, which
// exchanges (dist/gossip/exchanger.h).
void train_loop(Worker&, StepLog&);

}  // namespace gossamer::apps
