// RelaySGD (Vogels et al. 2021, arXiv 2110.04175): sums of models go along a tree
// (../rounds/relay.h), a step's distance at a time. Where the workers' data differ, the fixed point
// is still the minimum of the mean loss, with any optimizer.
#pragma once

#include "gossamer/core/setting.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/rounds/relay.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

struct RelayOptions {
  bool two_trees = false;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.two_trees,
      Setting{.name = "two_trees",
              .about = "relay-sgd: the second half of the parameters goes along the tree of the "
                       "workers in reverse order, so that all send about as much"});
  }
};

class RelaySgd final : public RoundFormula {
 public:
  explicit RelaySgd(const RelayOptions& o) : two_trees_(o.two_trees) {}
  int trees() const override { return two_trees_ ? 2 : 1; }
  void step(RoundWorker& worker, i64) const override {
    worker.update();
    worker.relay();
  }

 private:
  const bool two_trees_;
};

// The sums as tensors.
class RelayMethod final : public SynchronousMethod {
 public:
  RelayMethod(const MethodTraits&, const MethodContext&, const RelayOptions&);
  std::vector<NamedTensor> state() override;

 private:
  void relay() override;
  void begin_anew() override;
  bool may_refuse() const override { return false; }
  double squared_distance_of(int slot, const RoundExchange::Part&) const override;
  double count_in(const RoundExchange::Part&) const;  // DistError: it can't be
  void make_places();

  struct Tree {
    Tensor sums, counts;  // of all links of the place: f32 [1, links * n], [1, links] on the CPU
    std::vector<Tensor> messages;  // to each of them
    RelayPlace<Tensor> place{};
  };
  std::vector<Tree> trees_;  // of each piece; none when alone
  int workers_ = 0;          // that they were made for
};

}  // namespace gossamer::dist
