// One gradient of a training run: a batch to the device, forward, backward. On a GPU it becomes a
// recorded graph, in which events mark where the gradients of a bucket end; whoever sums them hears
// of all buckets right after a launch, and waits for the events on the device.
#pragma once

#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/loss_sum.h"
#include "gossamer/apps/train/step_graph.h"
#include "gossamer/apps/train/step_inputs.h"
#include "gossamer/apps/train/training_loss.h"

namespace gossamer::apps {

class GradientStep {
 public:
  struct Parts {
    nn::Module& net;
    FlatParams& params;
    const Pictures& prepare;
    TrainingLoss loss_of;
    // Method::prepare, before anything of the step is given to the device
    std::function<void()> before_backward;
  };
  // fixed: buffers and losses as on a GPU, for tests on a CPU. What can't be recorded is refused as
  // graph.mode says.
  GradientStep(Parts, StepGraph::Options graph, bool fixed = false);
  // The batch of the next compute(); on a GPU its copy runs beside the step before, if it is
  // brought before that one's update.
  void bring(const data::Batch&, const Position&);
  // FlatParams::grads() holds the gradient, losses() its loss
  void compute();
  void compute(const data::Batch& batch, const Position& at) { bring(batch, at), compute(); }
  void step_ends() { inputs_.step_ends(); }  // the update is enqueued too
  LossSum& losses() { return losses_; }
  bool recorded() const { return graph_.recorded(); }

 private:
  Parts parts_;
  StepInputs inputs_;
  LossSum losses_;
  StepGraph graph_;
};

}  // namespace gossamer::apps
