// The training loop of one worker: take a batch, compute its loss and gradient, update, report.
#pragma once

#include <functional>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/step_inputs.h"
#include "gossamer/core/captured_step.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/update.h"
#include "gossamer/nn/module.h"

namespace gossamer::apps {

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
    // The mean loss of a batch, []. In the device's memory.
    std::function<Tensor(const StepBatch&, const Tensor& numbers)> loss_of;
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
  void bring(const DrawnBatch&);
  // True if that was the last batch of the gradient: FlatParams::grads() holds it, and losses()
  // includes its loss. Otherwise bring the next batch.
  bool compute();
  bool compute(const DrawnBatch& batch) {
    bring(batch);
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
