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
// outer_alone: a worker alone does outer steps, with its own model for the mean. With Muon that is
// MuLoCo for one worker (Therien et al. 2025, arXiv 2505.23725).
//
// Coded (MethodOptions::payload), diloco sends the ways x - o, as Streaming DiLoCo does: they are
// small, and so is their rounding.
#pragma once

#include "gossamer/dist/methods/mixing_options.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

// What the formula of one step has; the simulator takes these.
struct OuterStepOptions : PeriodOptions {
  double outer_rate = 0.7;
  std::optional<double> outer_momentum{};  // none: 0.9, noloco 0.5

  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    PeriodOptions::visit(self, f);
    f(self.outer_rate, Setting{.name = "outer_rate",
                               .about = "diloco, noloco: learning rate of the outer steps",
                               .range = Range::above_zero_to(10)});
    f(self.outer_momentum,
      Setting{.name = "outer_momentum",
              .about = "diloco, noloco: momentum of the outer steps, 0 to 1; auto: 0.9, noloco 0.5",
              .range = Range::from_below(0, 1).said("at least 0 and below 1")});
  }
};

struct DilocoOptions : OuterStepOptions {
  i64 fragments = 1;
  i64 outer_delay = 0;
  bool outer_alone = false;

  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    OuterStepOptions::visit(self, f);
    const auto period = static_cast<double>(self.period);
    const std::string steps = std::to_string(self.period);
    constexpr double kMostFragments = 4000;  // slots of a round
    f(self.fragments,
      Setting{.name = "fragments",
              .about = "diloco, noloco: pieces of the model whose outer steps take turns, so that "
                       "less is sent at once (Streaming DiLoCo); 1 to {period}",
              .range = Range::from_to(1, std::min(period, kMostFragments))
                           .said("1 to {period}, " + steps + ", and at most 4000")});
    f(self.outer_delay,
      Setting{.name = "outer_delay",
              .about = "diloco, noloco: own steps that a piece is under way, beside them, before "
                       "its outer step; 0: it is waited for",
              .range = Range::from_below(0, period).said("0, or below {period}, " + steps),
              .unit = "steps"});
    f(self.outer_alone,
      Setting{.name = "outer_alone",
              .about = "diloco, noloco: true: a worker without others does outer steps too, as "
                       "MuLoCo with one worker; false: it trains as its optimizer would"});
  }
};

struct NolocoOptions : DilocoOptions, ConsensusFactor {
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    DilocoOptions::visit(self, f);
    ConsensusFactor::visit(self, f);
  }
};

class Diloco final : public RoundFormula {
 public:
  enum class With { all, neighbours };
  Diloco(With, const DilocoOptions&, double consensus_factor);
  bool has_outer_steps() const override { return true; }
  bool has_outer_steps_alone() const override { return alone_too; }
  double consensus_factor() const override { return factor; }
  // A step with one fragment and no delay.
  void step(RoundWorker& worker, i64 k) const override {
    worker.update();
    if ((k + 1) % period != 0) return;
    with == With::all ? worker.average() : worker.mix();
    worker.outer_step(outer);
  }

  const With with;
  const i64 period;
  const OuterStep outer;
  const double factor;  // of mixing with neighbours
  const bool alone_too;
};

// The formula by fragments, which may travel beside own steps.
class DilocoMethod final : public SynchronousMethod {
 public:
  DilocoMethod(const MethodTraits&, const MethodContext&, const Diloco&, const DilocoOptions&);
  // none where a worker alone does no outer steps
  std::vector<NamedTensor> state() override;

 private:
  void local_step() override;
  bool may_refuse() const override { return formula_.with == Diloco::With::neighbours; }
  void begin_anew() override;
  bool idle() const { return alone() && !formula_.alone_too; }  // no outer steps
  // after how many own steps of a period
  i64 due(int slot) const { return own_.period * (slot + 1) / slots(); }
  void mix_pending() override;
  bool mix_fragment(int slot);
  void outer_step_of(int slot, const Tensor& mean);
  bool lands(int slot, i64 step) const;
  float& uneven(int slot) { return Tensor(uneven_).as<float>()[slot]; }
  void send(int slot);
  void launch_sent(int slot);
  void land(int slot);
  void mean_of_all(int slot, Tensor mean);
  void resume();
  Tensor of_fragment(const Tensor&, int slot) const;

  const Diloco formula_;
  const DilocoOptions own_;
  i64 since_ = 0;  // own steps since the last fragment had its outer step
  // With a delay: what was sent, of o's shape; on its way, or left from the last time. Coded, it is
  // ways_ that travels.
  Tensor sent_, ways_;
  bool resumed_ = true;
  // f32 [1, slots]: above 0 where a death may have left the survivors a step apart: their o and v
  // of these fragments are averaged, too
  const Tensor uneven_;
};

}  // namespace gossamer::dist
