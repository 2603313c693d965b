// Counts the rounds of a formula.
#include "gossamer/dist/rounds/step.h"

namespace gossamer::dist {
namespace {

class CountOfRounds final : public RoundWorker {
 public:
  void average_gradients() override {}
  void update() override {}
  void mix() override { ++rounds; }
  void mix_ahead() override { ++rounds; }
  void average() override {}
  void outer_step(const OuterStep&) override {}
  void blend(Vector, double, double, Vector) override {}
  double learning_rate() const override { return 0; }

  i64 rounds = 0;
};

}  // namespace

i64 rounds_in_steps(const RoundFormula& formula, i64 steps) {
  CountOfRounds count;
  for (i64 k = 0; k < steps; ++k) formula.step(count, k);
  return count.rounds;
}

}  // namespace gossamer::dist
