// The decentralized part of gossamer.h: a group, and a training of its workers.
#pragma once

#include "gossamer/apps/capi/method_state.h"
#include "gossamer/apps/capi/objects.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/transport.h"
#include "gossamer/nn/train/train_state.h"

namespace gossamer::capi {

class Workers final : public Object {
 public:
  // restarted: the others have begun before.
  Workers(std::unique_ptr<dist::Group> group, bool restarted)
      : own_(std::move(group)), restarted_(restarted) {}
  Workers(std::shared_ptr<dist::LocalCluster> cluster, int rank)
      : cluster_(std::move(cluster)), rank_(rank) {}
  ~Workers() override;
  bool has_threads() const override { return true; }
  dist::Group& group() { return cluster_ ? cluster_->group(rank_) : *own_; }
  // ConfigError if a training has begun with this group before: others may still be in it.
  void check_new() const;
  void begin() { begun_ = true; }
  void finished() { finished_ = true; }
  // whether it will take over the parameters of another worker
  bool restarted() const { return restarted_; }

 private:
  std::unique_ptr<dist::Group> own_;
  std::shared_ptr<dist::LocalCluster> cluster_;
  int rank_ = 0;
  bool restarted_ = false, begun_ = false, finished_ = false;
};

// What a caller says of a training, in memory of its own.
struct TrainingPlan {
  std::string method, graph;
  dist::MethodOptions options;
  bool resume = false;                // it goes on from:
  std::optional<MethodState> from{};  // none: what the caller restored was of no method
};
TrainingPlan plan_of(const char* method, const char* graph, const gsm_gossip_options&,
                     double clip_norm = 0);

// A method from its first step to its last.
class Training {
 public:
  Training(std::shared_ptr<Workers>, FlatParams&, Optimizer&, TrainingPlan);
  void check_on() const;  // ConfigError: it has finished
  void step(double learning_rate);
  bool done() const { return finished_ || method_->done(); }
  bool finished() const { return finished_; }
  void finish();
  // Runs f while no exchange is under way.
  void quiet(const std::function<void()>& f) { method_->quiesce(f); }
  // Runs f while nothing writes the values.
  void read(const std::function<void()>& f) { method_->read_model(f); }
  gsm_gossip_stats_t stats() const;
  int rank() const { return workers_->group().rank(); }
  // Between two steps, within quiet(). samples: samples_seen() from before it.
  MethodState state(double samples) const;
  double samples_seen() const { return method_->samples_seen(); }

 private:
  std::shared_ptr<Workers> workers_;
  std::unique_ptr<dist::Method> method_;
  i64 steps_ = 0;  // that succeeded
  bool finished_ = false;
};

// A copy of a training between two steps, with the method's state if one goes on.
nn::TrainSnapshot snapshot(const nn::TrainState&, i64 step, const nn::Header& model,
                           const nn::Header& more, Training* method);
// Loads one into the same kind of training. Error: it does not fit, and nothing has changed.
nn::Position restore(const nn::TrainState&, const SafeTensors&, const std::string& name);

// What is behind a gsm_method: a training, and whose parameters it changes.
class AnyMethod : public Object {
 public:
  bool has_threads() const override { return true; }
  // BusyError: another thread uses what is trained. Errors of its gradient, and of the training.
  virtual void step(double learning_rate) = 0;
  virtual void finish() = 0;
  virtual Training& training() = 0;
};

}  // namespace gossamer::capi
