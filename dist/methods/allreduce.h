// AR-SGD: the gradients of all workers are averaged in every step, bucket by bucket while backward
// still runs (gradient_sum.h). The baseline.
#pragma once

#include <map>

#include "gossamer/dist/finish.h"
#include "gossamer/dist/membership.h"
#include "gossamer/dist/methods/mixing_options.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/rounds/gradient_sum.h"

namespace gossamer::dist {

struct AllReduceOptions : OverlapOptions, BucketOptions {
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    OverlapOptions::visit(self, f);
    BucketOptions::visit(self, f);
  }
};

class AllReduceMethod : public Method {
 public:
  AllReduceMethod(const MethodContext&, const AllReduceOptions&);
  ~AllReduceMethod() override;
  // With overlap: buckets of the next backward pass are summed as it makes them. The first step,
  // and the first after a change of the members, sums when it is over.
  void prepare(double learning_rate) override;
  void step(double learning_rate) override;
  double samples_seen() const override { return samples_; }
  bool done() const override {
    return options_.total_samples > 0 && samples_ >= options_.total_samples;
  }
  void finish() override;
  const Sharing& sharing() const override { return sharing_; }
  void quiesce(const std::function<void()>& f) override { f(); }
  std::vector<NamedTensor> state() override { return {}; }
  MethodStats stats() const override;
  const char* name() const override;

 private:
  // false: this worker took over another's model instead
  bool sum_gradients();
  i64 samples_of(int worker) const;  // of a step; one of those that share it
  void share_among(std::vector<int> workers);
  FiniteSum finite_gradients(Collectives&);  // of sum_, once it is there
  bool catch_up(Collectives&, bool finishing, Seconds patience = Seconds(0));
  void hear(Seconds timeout = Seconds(0));
  void give_up_sum();
  void check_nobody_has_finished();
  void await_all(double until);
  void report_deaths();

  FlatParams& params_;
  Optimizer& optimizer_;
  Group& group_;
  const MethodOptions options_;
  const bool overlap_;
  Membership membership_;
  std::unique_ptr<GradientSum> sum_;  // none for a worker alone
  double samples_;
  double summed_ = 0;  // samples whose gradients are in the sum
  Sharing sharing_;
  i64 steps_ = 0, opened_ = -1;  // opened: membership_.rebuilds() when sum_ was opened last
  std::vector<int> known_;
  LeftOut left_out_;
  std::map<int, i64> ended_;  // who has called finish(), after how many steps
  int finishing_ = 0;         // how many are in finish(), as catch_up() last saw it
  // gave_up: a sum that others wait for in vain, so all build their collectives anew in finish()
  bool finished_ = false, gave_up_ = false;
  MethodStats stats_;
};

}  // namespace gossamer::dist
