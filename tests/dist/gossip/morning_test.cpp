// The course's net of one file (apps/course/morning.cpp), against the simulator's worker in double
// and the live one in f32: all three take the same gradients and exchanges in the same order.
#define main morning_main  // the file is a program
#include "gossamer/apps/course/morning.cpp"
#undef main

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "gossamer/core/update.h"
#include "gossamer/dist/gossip/model.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/simulation/simulated_worker.h"
#include "gossamer/nn/optim.h"

namespace gossamer::dist {
namespace {

constexpr std::size_t kWorkers = 6;
constexpr int kSteps = 12;

struct Happened {
  std::size_t i, j;
  double time;
  std::vector<double> moved;
};

std::vector<Happened> trained() {
  std::vector<Happened> out;
  std::mutex mutex;
  Training training(kWorkers, kSteps, of_ring(kWorkers),
                    [&](std::size_t i, std::size_t j, double time, const Vector& moved) {
                      const std::scoped_lock lock(mutex);
                      out.push_back({i, j, time, moved});
                    });
  training.run();
  return out;
}

double furthest(std::span<const double> a, const auto& b) {
  double out = 0;
  for (std::size_t k = 0; k < a.size(); ++k) out = std::max(out, std::abs(a[k] - b[k]));
  return out;
}

TEST(Morning, IsNoLongerThanTheReadmeSays) {
  std::ifstream file(GOSSAMER_SOURCE_DIR "/apps/course/morning.cpp");
  EXPECT_LE(std::count(std::istreambuf_iterator<char>(file), {}, '\n'), 250);
}

TEST(Morning, KnowsTheConstantsOfARing) {
  for (const int n : {4, 16, 64}) {
    const GraphConstants known = constants(make_graph("ring", n));
    const Constants own = of_ring(static_cast<std::size_t>(n));
    EXPECT_NEAR(own.eta, known.eta, 1e-12);
    EXPECT_NEAR(own.alpha_tilde, known.alpha_tilde, 1e-12);
  }
}

TEST(Morning, DifferentiatesRight) {
  const Vector x = initial(Random(1));
  Random random(2);
  const Vector g = judge(x, 4, random).first;
  // The loss along g: the tape's own value is not told, so the derivative is that of f(x) . g.
  const double size = 1e-5;
  for (const std::size_t k : {0u, 40u, 100u, 336u}) {
    const auto loss = [&](double by) {
      Vector moved = x;
      moved[k] += by;
      Random same(2);
      double sum = 0;
      for (int e = 0; e < 4; ++e) {
        const Example example = draw(same);
        Tape tape;
        std::vector<Scalar> leaves;
        for (const double value : moved) leaves.push_back(tape.leaf(value));
        sum += std::pow(output(tape, leaves, example).value - example.label, 2) / 8;
      }
      return sum;
    };
    EXPECT_NEAR(g[k], (loss(size) - loss(-size)) / (2 * size), 1e-8) << k;
  }
}

TEST(Morning, TheSimulatorsWorkersDoTheSame) {
  std::vector<SimulatedWorker> workers(kWorkers, SimulatedWorker(initial(Random(1)), true));
  const Constants ring = of_ring(kWorkers);
  for (SimulatedWorker& w : workers)
    w.numbers.eta = ring.eta, w.numbers.alpha_tilde = ring.alpha_tilde;
  int exchanges = 0, gradients = 0;
  std::vector<double> from_i, from_j;
  for (const Happened& each : trained()) {
    SimulatedWorker &a = workers[each.i], &b = workers[each.j];
    if (each.i == each.j) {
      a.drift(each.time);
      for (std::size_t k = 0; k < each.moved.size(); ++k) a.update(k, each.moved[k]);
      ++gradients;
      continue;
    }
    const A2cid2::Mark mark_i = a.snapshot(each.time, from_i),
                       mark_j = b.snapshot(each.time, from_j);
    std::vector<double> d = from_i;
    for (std::size_t k = 0; k < d.size(); ++k) d[k] -= from_j[k];
    ASSERT_LT(furthest(each.moved, d), 1e-12) << "exchange " << exchanges;
    a.apply(mark_i, from_i, from_j);
    b.apply(mark_j, from_j, from_i);
    ++exchanges;
  }
  EXPECT_GE(gradients, kSteps * static_cast<int>(kWorkers));
  EXPECT_GT(exchanges, kSteps * static_cast<int>(kWorkers) / 4);
}

// A worker of the engine: its parameters, and an optimizer that takes what it is given.
struct Live {
  explicit Live(const std::vector<double>& start)
      : w(Tensor::empty({static_cast<i64>(start.size())})) {
    std::ranges::copy(start, w.as<float>());
    params.emplace(std::vector<NamedTensor>{{"w", w}}, std::vector<NamedTensor>{},
                   FlatOptions{.separate = true});
    sgd.emplace(*params, nn::SgdOptions{.momentum = 0});
    model.emplace(params->values(), true);
    model->exchange_by(DType::f32, nullptr);
  }
  Tensor w;
  std::optional<FlatParams> params;
  std::optional<nn::Sgd> sgd;
  std::optional<GossipModel> model;
};

TEST(Morning, TheEngineDoesTheSameInSinglePrecision) {
  std::vector<std::unique_ptr<Live>> workers;
  const Constants ring = of_ring(kWorkers);
  for (std::size_t i = 0; i < kWorkers; ++i) {
    workers.push_back(std::make_unique<Live>(initial(Random(1))));
    workers.back()->model->numbers.eta = ring.eta;
    workers.back()->model->numbers.alpha_tilde = ring.alpha_tilde;
  }
  int exchanges = 0;
  for (const Happened& each : trained()) {
    Live &a = *workers[each.i], &b = *workers[each.j];
    if (each.i == each.j) {
      a.params->settle_grads();
      std::ranges::copy(each.moved, a.params->grads().span<float>().begin());
      a.sgd->begin_step();
      a.model->gradient(each.time, *a.sgd, 1);
      continue;
    }
    a.model->snapshot(each.time), b.model->snapshot(each.time);
    std::vector<float> d(each.moved.size());
    for (std::size_t k = 0; k < d.size(); ++k)
      d[k] = a.model->outgoing().as<float>()[k] - b.model->outgoing().as<float>()[k];
    ASSERT_LT(furthest(each.moved, d), 1e-5) << "exchange " << exchanges;
    ++exchanges;
    std::memcpy(a.model->incoming().data(), b.model->outgoing().data(),
                b.model->outgoing().bytes());
    std::memcpy(b.model->incoming().data(), a.model->outgoing().data(),
                a.model->outgoing().bytes());
    a.model->arrived(), b.model->arrived();
  }
  EXPECT_GT(exchanges, 10);
}

}  // namespace
}  // namespace gossamer::dist
