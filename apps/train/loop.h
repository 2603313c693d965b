// The training loop of one worker: take a batch, compute its loss and gradient, update, report.
#pragma once

#include <functional>
#include <string>

#include "gossamer/apps/train/journal.h"
#include "gossamer/apps/train/plan.h"
#include "gossamer/apps/train/trainer.h"
#include "gossamer/nn/train/gradient_step.h"

namespace gossamer::apps {

// cuda_graph: as train.cuda_graph. auto: a step is captured as a graph where that is possible; on:
// it is a ConfigError where it is not; off: never. log: gets a line that says why it is not.
GraphOptions step_graph(const std::string& cuda_graph, GraphCapture,
                        std::function<void(const std::string&)> log = {});

class CommonStop;
class Milestones;
class StepLog;
// Makes the gradient step of this trainer's network, loss and device. learning_rate: of the update
// that follows. fake: graphs for tests, with which a step on a CPU behaves as on a GPU.
nn::GradientStep gradient_step(const Plan&, Journal&, Trainer&,
                               std::function<double()> learning_rate, GraphCapture fake = {});
// Trains until the method is done or a signal asks to stop; finish.cpp then calls Method::finish().
// A step: compute() of the batch that was brought, bring() of the next one, the update with
// method->step(), reports. All this runs in one thread, the training thread; ops divide their loops
// among the compute threads (core/parallel.h), and a GPU works behind it. Beside it run the
// loader's threads, which decode batches ahead (data/loader.h), and the communication thread, which
// exchanges (dist/gossip/exchanger.h).
void train_loop(const Plan&, Trainer&, nn::GradientStep&, StepLog&, Milestones&, CommonStop&);

}  // namespace gossamer::apps
