// Unit 5 of the course: an answer that comes late. Fill the hole, then
//   gossamer course check 5
#include "check.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/simulation/consensus.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: the published code sends x as it was last written, without the drift since. At
// which rate does a ring of 64 agree if only exchanges write x? (With its drift: 0.057; plain
// gossip: 0.0048.)
const double prediction = NAN;

// This worker sent its x at the time t. At t + late the peer's x of the time t has arrived, and d
// is the difference of the two. x and twin are those of now: gradients and drift have moved them.
// They become what they would be if d had been applied at t:  x -= d / 2,  twin -= alpha~ d.
void arrive(double& x, double& twin, double d, double late, double eta, double alpha_tilde) {
  // The hole.
  (void)x, (void)twin, (void)d, (void)late, (void)eta, (void)alpha_tilde;
}

// ---- The test. `gossamer course check` uses its own copy of what follows.

struct Copies {
  double x, twin;
  void drift(double eta, double dt) {
    const double c = (1 + std::exp(-2 * eta * dt)) / 2, s = 1 - c, before = x;
    x = c * x + s * twin, twin = s * before + c * twin;
  }
  void gradient(double g) { x -= g, twin -= g; }
};

int main() {
  using course::expect;
  Copies now{2, 1};
  arrive(now.x, now.twin, .5, 0, .3, 1.5);
  expect(now.x != 2 || now.twin != 1, "an answer moves something", "the hole is empty");
  expect(now.x != 1.25 || now.twin != .75, "an answer that is not late is an exchange",
         "c and s have changed places: c = (1 + e^(-2 eta late)) / 2, which is 1 if late is 0, "
         "belongs to the own copy");
  expect(now.x == 1.75 && now.twin == .25, "an answer that is not late is an exchange",
         "x -= d / 2, twin -= alpha~ d if late is 0");
  course::done("an answer at once");

  Copies frozen{2, 1};
  arrive(frozen.x, frozen.twin, .5, 1e6, .3, 1.5);
  expect(course::near(2 - frozen.x, 1 - frozen.twin, 1e-9),
         "after a long time d has moved x and its twin by the same",
         "between t and now x and its twin have drifted towards each other. What d would have "
         "done, (1/2, alpha~), would have drifted too: mix the two as unit 4's drift does");
  expect(course::near(2 - frozen.x, .5, 1e-9), "together they are moved by (1/2 + alpha~) d",
         "x and twin each by half of it: c and s both are 1/2 after a long time");
  course::done("an answer after a long time");

  Rng random(5);
  for (int run = 0; run < 1000; ++run) {
    const double eta = .5 * random.uniform53(), alpha_tilde = .5 + 4 * random.uniform53(),
                 d = random.normal();
    Copies on_time{random.normal(), random.normal()};
    Copies late = on_time;
    on_time.x -= d / 2, on_time.twin -= alpha_tilde * d;
    double passed = 0;
    for (int event = 0; event < 4; ++event) {
      const double dt = random.exponential(), g = .1 * random.normal();
      on_time.drift(eta, dt), late.drift(eta, dt);
      on_time.gradient(g), late.gradient(g);
      passed += dt;
    }
    const Copies before = late;
    arrive(late.x, late.twin, d, passed, eta, alpha_tilde);
    expect(course::near(late.x + late.twin, on_time.x + on_time.twin, 1e-9),
           "the mean of x and its twin is what it would be",
           "together they lose (1/2 + alpha~) d, however late; was a gradient overwritten?");
    const bool swapped = course::near(before.x - late.x, before.twin - on_time.twin, 1e-9);
    expect(course::near(late.x, on_time.x, 1e-9), "x is what it would be",
           swapped
               ? "c and s have changed places: c = (1 + e^(-2 eta late)) / 2 belongs to the own "
                 "copy"
               : "x -= (c / 2 + s alpha~) d, c, s = (1 +- e^(-2 eta late)) / 2");
    expect(course::near(late.twin, on_time.twin, 1e-9), "the twin is what it would be",
           "twin -= (s / 2 + c alpha~) d");
  }
  course::done("1,000 late answers among gradients, each exact");
  SimulationOptions options;
  options.method = "published";
  const auto published = simulate_consensus(plan_simulation(options), 0);
  course::predicted(prediction, published.decay_rate, .2, "the rate in the published order");
  return course::end();
}
