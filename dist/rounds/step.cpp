// Counts the messages of a formula.
#include "gossamer/dist/rounds/step.h"

namespace gossamer::dist {
namespace {

class CountOfMessages final : public RoundWorker {
 public:
  void average_gradients() override {}
  void update() override {}
  void mix() override { ++messages; }
  void mix_ahead() override { ++messages; }
  void mix_alone(Vector) override { ++messages; }
  void relay() override { ++messages; }
  void begin_replicas() override {}
  void exchange_replicas() override { ++messages; }
  void receive_replicas() override { ++messages; }
  void mix_replicas(double) override {}
  void average() override {}
  void average_compressed(Vector, MeanOver) override { ++messages; }
  void outer_step(const OuterStep&) override {}
  void blend(Vector, double, double, Vector) override {}
  double learning_rate() const override { return 0; }

  i64 messages = 0;
};

}  // namespace

i64 messages_in_steps(const RoundFormula& formula, i64 steps) {
  CountOfMessages count;
  for (i64 k = 0; k < steps; ++k) formula.step(count, k);
  return count.messages;
}

}  // namespace gossamer::dist
