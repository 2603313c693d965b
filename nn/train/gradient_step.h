// The gradient of a batch, or of several whose gradients are added up, and the sum of their losses.
//
//   GradientStep gradient({.net = net, .params = params, .loss_of = …});
//   for (…) {
//     if (gradient.compute(batch)) optimizer.step(learning_rate);
//     gradient.step_ends();
//   }
//
// Threads: one at a time for a GradientStep and what it was made of.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/core/blocks.h"
#include "gossamer/core/captured_step.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/update.h"
#include "gossamer/nn/module.h"
#include "gossamer/nn/train/step_inputs.h"

namespace gossamer::nn {

// The sum of the losses since the last take(). It lies on the device, so that adding is part of
// the step and only reading it waits for the device.
class LossSum {
 public:
  // like_gpu: behaves on a CPU as on a GPU, for tests.
  explicit LossSum(Device device, bool like_gpu = false)
      : sum_(Tensor::zeros({1}, DType::f32, device)), free_(device.is_cpu() && !like_gpu) {}
  // loss: one f32 number on the device. Adds share times it.
  void add(const Tensor& loss, float share = 1) {
    Tensor one = loss.detach().reshape({1});
    axpy(sum_, share, one);
  }
  bool free_to_read() const { return free_; }  // take() waits for nothing
  double take() {
    const double sum = static_cast<double>(sum_.item());
    sum_.zero();
    return sum * static_cast<double>(unit_);
  }
  // What was added and what will be counts this many times. The sum so far stays.
  void set_unit(float unit) {
    if (unit == unit_) return;
    scale(sum_, unit_ / unit);
    unit_ = unit;
  }

 private:
  Tensor sum_;
  float unit_ = 1;
  bool free_;
};

// Each batch is copied to the device, then forward and backward. The device's work may be captured
// as graphs after a few steps, one for each of the most frequent shapes (core/captured_step.h).
// loss_of must leave to the device what varies between steps: in a launch its host code does not
// run. Events in the graph mark where the gradients of a bucket are complete; all buckets are
// reported as ready right after a launch, and their sums wait for the events on the device.
class GradientStep {
 public:
  struct Parts {
    Module& net;         // in training mode when compute() is called
    FlatParams& params;  // of net
    // The mean loss of a batch, f32 []. Batch and numbers lie where the parameters do.
    std::function<Tensor(const StepBatch&, const Tensor& numbers)> loss_of;
    // Called before the work of a gradient's last batch is given to the device. May be empty.
    std::function<void()> before_backward = {};
    int batches = 1;  // of one gradient
    // It is the sum of theirs divided by this, which is more than `batches` where others compute
    // the rest of them; 0: their mean.
    int divisor = 0;
  };
  // like_gpu: behaves on a CPU as on a GPU, for tests.
  explicit GradientStep(Parts, GraphOptions graphs = {}, bool like_gpu = false);

  // The batch of the next compute(). Brought right after a compute(), which on a GPU only enqueues
  // its work, it is copied on a stream of its own beside that work (step_inputs.h).
  void bring(const DrawnBatch&);
  // True if that was the last batch of the gradient: FlatParams::grads() holds it, and losses()
  // includes its loss. Otherwise bring the next batch. What loss_of throws ends the gradient, and
  // the next batch begins another one.
  bool compute();
  bool compute(const DrawnBatch& batch) {
    bring(batch);
    return compute();
  }
  // From the next gradient on it has so many batches.
  void set_batches(int);
  // Forgets a batch that was brought and not computed.
  void drop();
  bool begun() const { return done_ > 0; }   // some batches of a gradient are computed, not all
  void step_ends() { inputs_.step_ends(); }  // call it when the update is enqueued
  // Forgets the batches of a gradient that is begun: running statistics and counters of the network
  // become what they were before its first batch.
  void abandon();
  LossSum& losses() { return losses_; }
  std::size_t graphs() const { return first_graph_.graphs() + later_graph_.graphs(); }

 private:
  void keep_buffers();

  Parts parts_;
  StepInputs inputs_;
  LossSum losses_;
  float share_ = 1;                         // of a batch in the gradient
  int done_ = 0;                            // batches of the current gradient
  CapturedStep first_graph_, later_graph_;  // later batches add to the gradients of the first
  std::vector<Tensor> buffers_, kept_;  // of the network; as they were before a gradient of several
};

}  // namespace gossamer::nn
