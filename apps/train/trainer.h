// What one worker of a run trains, and with what: data, model, optimizer, the group of workers and
// the method that joins them. loop.h trains it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "gossamer/apps/train/dealing.h"
#include "gossamer/apps/train/founders.h"
#include "gossamer/apps/train/journal.h"
#include "gossamer/apps/train/patience.h"
#include "gossamer/apps/train/plan.h"
#include "gossamer/apps/train/task.h"
#include "gossamer/core/flat.h"
#include "gossamer/dist/faults/injector.h"
#include "gossamer/dist/method.h"
#include "gossamer/nn/optim.h"
#include "gossamer/nn/train/train_state.h"

namespace gossamer::apps {

struct Trainer {
  // Joins the group: returns when all workers have begun to set up. With `resume` the state is that
  // of its checkpoint.
  Trainer(const Plan&, Journal&, Task, const std::optional<ResumePoint>& resume);
  nn::TrainState state() { return {net->buffers(), *params, *optimizer, ema.get()}; }
  i64 parameter_count() const;  // of the model, frozen ones too
  // The graph among these workers, where others may join; else that of all.
  dist::Graph graph_of(const std::vector<int>& alive, const Plan&) const;
  // What this worker has done since the start or the resume of the run.
  RunFigures leg(const Plan&) const;

  Task task;
  std::unique_ptr<dist::Injector> injector;  // deliberate faults (dist.inject), or none
  std::unique_ptr<dist::Group> undisturbed;  // with injected faults: the group below them
  std::unique_ptr<dist::Group> on_host;      // on a GPU: the group below its own
  std::unique_ptr<dist::Group> group;
  std::unique_ptr<nn::Module> net;
  std::unique_ptr<FlatParams> params;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<nn::Ema> ema;        // none without train.ema
  dist::Graph graph;                   // over all places
  std::unique_ptr<Founders> founders;  // of a worker that joined, or none
  // Declared after all that its thread uses, so that the thread stops first.
  std::unique_ptr<dist::Method> method;
  nn::Position at;                   // next batch; with train.global_batch, of the common order
  std::unique_ptr<Dealing> dealing;  // none unless deals_one_order()
  Patience patience;
  std::chrono::steady_clock::time_point began;  // when the training loop began
  double wall_s = 0;                            // how long it took
  double dealt_again = 0;  // samples whose worker was lost before it brought them

 private:
  // The steps of the constructor, in their order.
  void make_model(const Plan&, Journal&, const std::optional<ResumePoint>& resume);
  void join_group(const Plan&, Journal&);
  void inject(const Plan&, Journal&);         // the injector, and a group that it disturbs
  void use_gpu_group(const Plan&, Journal&);  // from now on its tensors lie on the device
  void make_method(const Plan&, Journal&, const std::optional<ResumePoint>&);
  void resume_from(const Plan&, Journal&, const ResumePoint&,
                   const std::vector<NamedTensor>& of_method);
  std::optional<data::SampleOrder> saved_order_;  // of the samples, when the state was saved
  bool epoch_is_left_ = false;
  std::vector<double> told_;  // of who joins: where the samples stood (dealing.h)
};

}  // namespace gossamer::apps
