// The consensus distance that workers estimate while they train, beside the true one.
#include <cmath>

#include <gtest/gtest.h>

#include "dist/simulation/under_load.h"
#include "gossamer/dist/consensus_estimate.h"
#include "gossamer/dist/simulation/network.h"
#include "gossamer/dist/simulation/problems.h"

namespace gossamer::dist {
namespace {

struct Distances {
  double truth = 0, estimate = 0;  // Xi^2, means over time and workers
  double repeats = 0;              // the part of the exchanges
};

// Noisy gradients drive the workers apart. A worker's transfer takes as long as a gradient.
Distances distances(const char* graph, const char* method, double rate) {
  SimulationOptions o;
  o.graph = graph;
  o.workers = 16;
  o.method = method;
  o.pairing = "handshake";
  o.rate = rate;
  o.machines = machines_under_load();
  const SimulationPlan plan = plan_simulation(o);
  const auto problem = make_quadratic(16, {.curvature = .1, .heterogeneity = 0});
  NetworkSimulation net(plan, problem.get(), 3);
  Distances out;
  double looks = 0;
  for (double t = 200; t < 3000; t += 5, ++looks) {
    net.run_until(t);
    out.truth += net.distance() * problem->dims();
    for (int i = 0; i < 16; ++i) out.estimate += std::pow(net.estimated_distance(i), 2) / 16;
  }
  out.truth /= looks, out.estimate /= looks;
  out.repeats = static_cast<double>(net.repeats()) / (2 * static_cast<double>(net.exchanges()));
  return out;
}

// On the star every leaf meets its one neighbour again each time; on the ring almost nobody does.
TEST(ConsensusEstimate, IsUnbiasedWithAndWithoutRepeatedPartners) {
  for (const auto& [graph, method, rate] : {std::tuple{"ring", "a2cid2", 1.0},
                                            {"ring", "adpsgd", 2.0},
                                            {"star", "adpsgd", .2},
                                            {"complete", "adpsgd", 1.0}}) {
    const Distances d = distances(graph, method, rate);
    EXPECT_NEAR(d.estimate / d.truth, 1, .08)
        << graph << " " << method << ", repeats " << d.repeats;
    if (std::string(graph) == "star")
      EXPECT_GT(d.repeats, .4);
    else
      EXPECT_LT(d.repeats, .3) << graph;
  }
}

PairSketch sketch_of(const Tensor& x, std::uint64_t stream) {
  PairSketch out{};
  add_sketch(x, 1, stream, out);
  return out;
}

TEST(ConsensusEstimate, ASketchKeepsTheSquaredDistanceOnAverage) {
  Tensor a = Tensor::empty({3000}), b = Tensor::empty({3000});
  Rng random(1);
  double want = 0, sum = 0;
  for (std::size_t i = 0; i < 3000; ++i) {
    a.span<float>()[i] = 5 + random.normal();
    b.span<float>()[i] = 5 + random.normal();
    want += std::pow(a.span<float>()[i] - b.span<float>()[i], 2);
  }
  constexpr int kStreams = 2000;
  for (int stream = 1; stream <= kStreams; ++stream) {
    const PairSketch x = sketch_of(a, static_cast<std::uint64_t>(stream)),
                     y = sketch_of(b, static_cast<std::uint64_t>(stream));
    for (std::size_t k = 0; k < kPairSketch; ++k) sum += (x[k] - y[k]) * (x[k] - y[k]);
  }
  EXPECT_NEAR(sum / kStreams / want, 1, .05);
}

TEST(ConsensusEstimate, TakesWholeSketchesOnly) {
  ConsensusEstimate sender(1, 7), other(2, 7), here(0, 7);
  const double first = sender.next();
  EXPECT_GT(first, 1);
  EXPECT_LT(first, 2);
  sender.skip(100);
  EXPECT_NEAR(sender.next(), 100 + ConsensusEstimate::kEvery, ConsensusEstimate::kEvery / 2);
  const std::vector<int> to{0};
  const auto say = [&](ConsensusEstimate& from, int rank, double value, std::size_t begin,
                       std::size_t end) {
    PairSketch s{};
    s.fill(value);
    const auto all = from.messages(s);
    for (std::size_t k = begin; k < end; ++k)
      if (here.receive(rank, all[k])) here.own({});
  };
  (void)sender.choose(to);
  say(sender, 1, 2, 0, kPairSketch - 1);
  EXPECT_EQ(here.squared(), -1) << "one number is missing";
  say(sender, 1, 2, kPairSketch - 1, kPairSketch);
  EXPECT_EQ(here.squared(), 4 * kPairSketch);
  EXPECT_DOUBLE_EQ(here.distance(2), std::sqrt(kPairSketch));
  here.forget();
  (void)sender.choose(to), (void)other.choose(to);
  say(sender, 1, 2, 0, 3);
  say(other, 2, 1, 0, kPairSketch);
  EXPECT_EQ(here.squared(), kPairSketch) << "the first was interrupted";
  say(sender, 1, 2, 3, kPairSketch);
  (void)sender.choose(to);
  say(sender, 1, INFINITY, 0, kPairSketch);
  EXPECT_EQ(here.squared(), kPairSketch);
}

}  // namespace
}  // namespace gossamer::dist
