// DiLoCo (Douillard et al. 2023, arXiv 2311.08105) and NoLoCo (Kolehmainen et al. 2025, arXiv
// 2506.10911): `period` own steps from the outer model o with any optimizer, which keeps its state;
// then an outer optimizer takes the way d = o - (mean of the models x) as its gradient:
//   v <- mu v + d,    o <- o - r u,    x <- o
//   diloco   the mean is over all workers, so o and v have the same bits everywhere;
//            u = d + mu v (Nesterov); r = 0.7, mu = 0.9
//   noloco   sum_j W_ij x_j over the workers of a round instead (pairs on one-peer-exp or
//            ring-matching), and each worker has its own o and v; u = v; r = 0.7, mu = 0.5. The
//            paper's pull of o towards the partner's has the factor gamma = r, as in its authors'
//            code: then x is all that travels.
// r = 1, mu = 0 is local SGD, or its form by pairs. The mean of o moves as if all workers had one
// outer model; mixing leaves it where it is.
//
// fragments: the parameters are cut into so many pieces, and each has its outer step `period` own
// steps after its last one, at equal distances: as Streaming DiLoCo (arXiv 2501.18512) divides what
// is sent at once.
//
// outer_delay: a fragment is sent, and its outer step comes so many own steps later; what they have
// moved it, stays: x <- o + (x - what x was when it was sent). (Streaming DiLoCo keeps half of it.)
// Then nobody waits, unless a transfer takes longer than that. diloco's fragments then go to every
// other worker, n - 1 times their bytes; without a delay it is a sum, of 2 (n - 1)/n.
//
// Coded (MethodOptions::payload), diloco sends the ways x - o, as Streaming DiLoCo does: they are
// small, and so is their rounding.
#pragma once

#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

class DilocoMethod final : public SynchronousMethod {
 public:
  enum class With { all, neighbours };
  DilocoMethod(With, FlatParams&, Optimizer&, Group&, const Graph&, const MethodOptions&);
  // none in a group of one
  std::vector<NamedTensor> state() override;

 private:
  void update(double learning_rate) override;
  bool may_refuse() const override { return with_ == With::neighbours; }
  void begin_anew() override;
  // after how many own steps of a period
  i64 due(int slot) const { return i64{options_.period} * (slot + 1) / slots(); }
  void mix_pending() override;
  bool mix_fragment(int slot);
  void outer_step(int slot, const Tensor& mean);
  bool lands(int slot, i64 step) const;
  void send(int slot);
  void launch_sent(int slot);
  void land(int slot);
  void mean_of_all(int slot, Tensor mean);
  void resume();
  Tensor of_fragment(const Tensor&, int slot) const;

  const With with_;
  const double momentum_;
  i64 since_ = 0;            // own steps since the last fragment had its outer step
  Tensor model_, velocity_;  // o: f32 [n]; v: f32 [1, n], for it is no copy of the model
  // With a delay: what was sent, of o's shape; on its way, or left from the last time. Coded, it is
  // ways_ that travels.
  Tensor sent_, ways_;
  bool resumed_ = true;
  // A death may have left the survivors a step apart: their o and v of these fragments are averaged
  // too.
  std::vector<bool> uneven_;
};

}  // namespace gossamer::dist
