// AR-SGD: the gradients of all workers are averaged in every step. The baseline.
#pragma once

#include "gossamer/dist/group/membership.h"
#include "gossamer/dist/method.h"

namespace gossamer::dist {

class AllReduceMethod : public Method {
 public:
  AllReduceMethod(FlatParams&, Optimizer&, Group&, const MethodOptions&);
  void step(double learning_rate) override;
  double samples_seen() const override { return samples_; }
  bool done() const override { return options_.total_samples > 0 && samples_ >= options_.total_samples; }
  void finish() override;
  void quiesce(const std::function<void()>& f) override { f(); }
  std::vector<NamedTensor> state() override { return {}; }
  MethodStats stats() const override { return stats_; }
  const char* name() const override { return "allreduce"; }
  bool needs_frozen_compute() const override { return false; }

 private:
  bool catch_up(Collectives&);
  void report_deaths();

  FlatParams& params_;
  Optimizer& optimizer_;
  Group& group_;
  const MethodOptions options_;
  Membership membership_;
  Tensor sum_;                           // gradients on their way: params_.grads() stays whole until all have come through
  double samples_;
  i64 steps_ = 0, rebuilds_ = 0;
  std::vector<int> known_;
  MethodStats stats_;
  bool finished_ = false;
};

}  // namespace gossamer::dist
