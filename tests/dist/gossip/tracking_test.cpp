// Asynchronous gradient tracking (gossip/tracking.h): what it conserves in any order of events, and
// where workers of unlike data and unlike speed end, in double and as threads in f32.
#include "gossamer/dist/gossip/tracking.h"

#include <array>
#include <optional>
#include <set>

#include <gmock/gmock.h>

#include "dist/around.h"
#include "dist/gossip/speeds.h"
#include "dist/gossip/training.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/simulation/simulated_worker.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

using Then = TrackingEpoch::Then;

TEST(TrackingEpoch, TwoWorkersAverageUntilOneOfThemLosesAThird) {
  TrackingEpoch a, b;
  const auto both = [&](Then of_a, Then of_b) {
    const auto from_a = a.stamp(1), from_b = b.stamp(0);
    EXPECT_EQ(a.exchanged(1, from_a, from_b), of_a);
    EXPECT_EQ(b.exchanged(0, from_b, from_a), of_b);
  };
  both(Then::average, Then::average);
  both(Then::average, Then::average);
  a.lost();
  both(Then::keep, Then::restart);  // b hears of it
  both(Then::average, Then::average);
  b.lost();
  b.lost();
  a.lost();
  both(Then::restart, Then::keep);
  both(Then::average, Then::average);
}

TEST(TrackingEpoch, ADifferenceThatComesAfterALossIsNotForTheNewTracker) {
  TrackingEpoch a, b;
  const auto from_a = a.stamp(1), from_b = b.stamp(0);
  a.lost();
  EXPECT_EQ(a.exchanged(1, from_a, from_b), Then::keep);
  EXPECT_EQ(b.exchanged(0, from_b, from_a), Then::average);  // it will hear
  EXPECT_EQ(b.exchanged(0, b.stamp(0), a.stamp(1)), Then::restart);
}

TEST(TrackingEpoch, AnExchangeThatFailedOnOneSideIsNoticedAtTheNext) {
  TrackingEpoch a, b;
  EXPECT_EQ(a.exchanged(1, a.stamp(1), b.stamp(0)), Then::average);
  const auto from_a = a.stamp(1), from_b = b.stamp(0);
  EXPECT_EQ(a.exchanged(1, from_a, from_b), Then::restart);
  EXPECT_EQ(b.exchanged(0, from_b, from_a), Then::restart);
  EXPECT_EQ(a.exchanged(1, a.stamp(1), b.stamp(0)), Then::average);
}

// Workers in double, as the simulator has them, whose events come in any order: gradients,
// exchanges whose two sides end at different times or not at all, deaths of which each hears when
// it does.
class Anarchy {
 public:
  using Gradient = std::function<double(std::size_t worker, double x)>;
  // epochs: as the method has them; false: y is averaged whatever happens
  Anarchy(int n, bool epochs, Gradient gradient)
      : epochs_(epochs), gradient_(std::move(gradient)), all_(static_cast<std::size_t>(n)) {}

  void gradient(std::size_t i, double rate) {
    Worker& w = all_[i];
    const double step = w.state.tracked(0, gradient_(i, w.state.x[0]));
    w.state.update(0, rate * step);
  }
  bool may_meet(std::size_t i, std::size_t j) const {
    const auto free = [&](std::size_t me, std::size_t other) {
      return !all_[me].dead && !all_[me].exchange && !all_[me].unheard.contains(other);
    };
    return free(i, j) && free(j, i);
  }
  void meet(std::size_t i, std::size_t j) {
    for (const auto& [me, peer] : {std::pair(i, j), {j, i}}) {
      Exchange e{.peer = peer, .stamp = all_[me].epoch.stamp(static_cast<int>(peer))};
      e.mark = all_[me].state.snapshot(0, e.own);
      all_[me].exchange = e;
    }
    for (const auto& [me, peer] : {std::pair(i, j), {j, i}}) {
      all_[me].exchange->received = all_[peer].exchange->own;
      all_[me].exchange->their_stamp = all_[peer].exchange->stamp;
    }
  }
  bool exchanges(std::size_t i) const { return all_[i].exchange.has_value(); }
  void end(std::size_t i, bool came_through = true) {
    Worker& w = all_[i];
    const Exchange e = *std::exchange(w.exchange, std::nullopt);
    if (!came_through) return;
    const Then then = epochs_ ? w.epoch.exchanged(static_cast<int>(e.peer), e.stamp, e.their_stamp)
                              : Then::average;
    w.state.apply(e.mark, e.own, e.received, then == Then::average);
    if (then == Then::restart) w.state.restart_tracking();
  }
  void dies(std::size_t i) {
    all_[i].dead = true;
    all_[i].exchange.reset();
    for (std::size_t j = 0; j < all_.size(); ++j)
      if (!all_[j].dead) all_[j].unheard.insert(i);
  }
  bool has_unheard(std::size_t i) const { return !all_[i].unheard.empty(); }
  void hears(std::size_t i) {
    Worker& w = all_[i];
    const std::size_t dead = *w.unheard.begin();
    w.unheard.erase(dead);
    if (w.exchange && w.exchange->peer == dead) w.exchange.reset();
    w.epoch.lost();
    if (epochs_) w.state.restart_tracking();
  }
  bool dead(std::size_t i) const { return all_[i].dead; }
  std::size_t size() const { return all_.size(); }
  double x(std::size_t i) const { return all_[i].state.x[0]; }
  // Sum of y - g over the living, with what is still to come from exchanges under way.
  double deficit() const {
    double sum = 0;
    for (const Worker& w : all_) {
      if (w.dead) continue;
      sum += w.state.tracker[0] - w.state.last[0];
      if (w.exchange) sum -= .5 * (w.exchange->own[1] - w.exchange->received[1]);
    }
    return sum;
  }

 private:
  struct Exchange {
    std::size_t peer = 0;
    TrackingEpoch::Stamp stamp, their_stamp{};
    A2cid2::Mark mark{};
    std::vector<double> own{}, received{};
  };
  struct Worker {
    SimulatedWorker state{std::vector<double>{1}, false, true};
    TrackingEpoch epoch;
    std::optional<Exchange> exchange;
    bool dead = false;
    std::set<std::size_t> unheard;  // deaths
  };
  const bool epochs_;
  const Gradient gradient_;
  std::vector<Worker> all_;
};

TEST(Tracking, KeepsTheSumOfAllGradientsInAnyOrderOfEvents) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Rng random(seed, 9);
    Anarchy net(6, false, [&](std::size_t, double) { return random.normal(); });
    for (int event = 0; event < 3000; ++event) {
      const std::size_t i = random.below(6), j = (i + 1 + random.below(5)) % 6;
      if (random.below(3) == 0)
        net.gradient(i, .01);
      else if (net.exchanges(i))
        net.end(i);
      else if (net.may_meet(i, j))
        net.meet(i, j);
      ASSERT_NEAR(net.deficit(), 0, 1e-12) << event;
    }
  }
}

// With deaths, and exchanges that only one side ends. When both have stopped and all have met, the
// sum is that of the survivors. Without epochs it is not.
TEST(Tracking, FindsTheSumOfTheSurvivorsAgain) {
  for (const bool epochs : {true, false})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Rng random(seed, 10);
      Anarchy net(7, epochs, [&](std::size_t, double) { return random.normal(); });
      int deaths = 0, failures = 0;
      const auto fails = [&] {
        const bool now = random.below(30) == 0;
        failures += now;
        return now;
      };
      const auto event = [&](bool accidents) {
        const std::size_t i = random.below(7), j = (i + 1 + random.below(6)) % 7;
        if (net.dead(i)) return;
        if (accidents && deaths < 3 && random.below(400) == 0)
          net.dies(i), ++deaths;
        else if (net.has_unheard(i) && random.below(20) == 0)
          net.hears(i);
        else if (random.below(3) == 0)
          net.gradient(i, .01);
        else if (net.exchanges(i))
          net.end(i, !accidents || !fails());
        else if (!net.dead(j) && net.may_meet(i, j))
          net.meet(i, j);
      };
      for (int k = 0; k < 4000; ++k) event(true);
      for (int k = 0; k < 2000; ++k) event(false);
      EXPECT_EQ(deaths, 3);
      EXPECT_GT(failures, 0);
      if (epochs)
        EXPECT_NEAR(net.deficit(), 0, 1e-12) << seed;
      else
        EXPECT_GT(std::abs(net.deficit()), 1e-3) << seed;
    }
}

// Eight on a ring, worker 3 ten times slower; worker 5 dies on the way. f_i = (x - b_i)^2 / 2.
TEST(Tracking, EndsAtTheMinimumOfThoseThatLive) {
  constexpr std::array<double, 8> kTargets = {3, -1, 4, 1, -5, 9, 2, -6};
  for (const bool epochs : {true, false}) {
    Rng random(2, 11);
    Anarchy net(8, epochs, [&](std::size_t i, double x) { return x - kTargets[i]; });
    const auto distance = [&](double minimum) {
      double most = 0;
      for (std::size_t i = 0; i < 8; ++i)
        if (!net.dead(i)) most = std::max(most, std::abs(net.x(i) - minimum));
      return most;
    };
    const auto run = [&](int events) {
      for (int k = 0; k < events; ++k) {
        const std::size_t i = random.below(8);
        std::size_t j = (i + 1) % 8;
        if (net.dead(j)) j = (j + 1) % 8;  // the ring is healed
        if (net.dead(i)) continue;
        if (net.has_unheard(i) && random.below(10) == 0)
          net.hears(i);
        else if (random.below(2) == 0)
          random.below(10) == 0 || i != 3 ? net.gradient(i, .05) : void();
        else if (net.exchanges(i))
          net.end(i);
        else if (net.may_meet(i, j))
          net.meet(i, j);
      }
    };
    run(100000);
    EXPECT_LT(distance(7 / 8.), 1e-10);
    net.gradient(5, .05);
    net.dies(5);
    run(100000);
    if (epochs)
      EXPECT_LT(distance(-2 / 7.), 1e-10);
    else
      EXPECT_GT(distance(-2 / 7.), .1) << "the gradient of the dead one is still in y";
  }
}

// --- threads

constexpr int kLive = 8, kSlow = 0, kCoordinates = 5;

// Worker i is least at i + k/100 in coordinate k. The mean of all: the minimum of the mean loss.
void expect_at(const std::vector<float>& x, double mean, double tolerance) {
  ASSERT_GE(x.size(), kCoordinates);
  for (std::size_t k = 0; k < kCoordinates; ++k)
    EXPECT_NEAR(x[k], mean + .01 * static_cast<double>(k), tolerance) << k;
}

struct Run {
  const char* method = "async-tracking";
  float momentum = 0;
  const char* payload = "f32";
  double loss_scale = 1;
};

// Eight on a ring, worker 0 ten times slower, without noise. around: what a worker trains with.
std::vector<float> train(
    const Run& of,
    const std::function<Group&(int, Group&)>& around = [](int, Group& group) -> Group& {
      return group;
    }) {
  LocalCluster cluster(kLive);
  Speeds speeds(kLive, kSlow);
  std::vector<float> x;
  on_workers(cluster, kLive, [&](int rank, Group& group) {
    Quadratic q(rank, kCoordinates, of.momentum, static_cast<float>(of.loss_scale));
    MethodOptions options;
    options.seed = 5;
    options.total_samples = kLive * 1000;
    options.payload = of.payload;
    auto run = make_method(of.method, q.params, q.sgd, around(rank, group),
                           make_graph("ring", kLive), options);
    {
      const Speeds::Leaves leaves{speeds, rank};
      while (!run->done()) {
        q.gradient();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        speeds.step(rank);
        run->step(.05 * (1 - of.momentum));
      }
    }
    run->finish();
    const auto values = q.params.values().span<float>();
    if (rank == 0) x.assign(values.begin(), values.end());
  });
  return x;
}

TEST(AsyncTracking, WorkersOfUnlikeDataAndSpeedEndAtTheMinimum) {
  expect_at(train({}), 3.5, 2e-5);
  expect_at(train({.momentum = .8f}), 3.5, 1e-4);
  expect_at(train({.loss_scale = 1024}), 3.5, 2e-5);
  EXPECT_GT(std::abs(train({.method = "adpsgd"})[0] - 3.5), .2)
      << "without tracking the slow worker counts less";
}

// Both sides mix what was sent, so rounding moves neither mean. What is left is noise: of values to
// 7, bf16 knows each to 1/64, and int8 to 1/36.
TEST(AsyncTracking, CodesKeepTheMinimum) {
  expect_at(train({.payload = "bf16"}), 3.5, .03);
  expect_at(train({.payload = "int8"}), 3.5, .03);
}

// Some exchanges of worker 1 come through on the other side alone.
class HearsNothing final : public Around {
 public:
  using Around::Around;
  int failures() const { return failures_; }

 private:
  Event next(Seconds timeout) override {
    Event e = Around::next(timeout);
    if (e.kind == Event::Kind::exchanged && e.ok && failures_ < 8 && ++exchanges_ % 5 == 0)
      e.ok = false, ++failures_;
    return e;
  }
  int exchanges_ = 0, failures_ = 0;
};

TEST(AsyncTracking, ExchangesThatFailOnOneSideLeaveNoBias) {
  std::unique_ptr<HearsNothing> deaf;
  expect_at(train({},
                  [&](int rank, Group& group) -> Group& {
                    if (rank != 1) return group;
                    deaf = std::make_unique<HearsNothing>(group);
                    return *deaf;
                  }),
            3.5, 2e-5);
  EXPECT_EQ(deaf->failures(), 8);
}

struct Tracked : Training {
  Tracked() : Training(4, 2500, "async-tracking") { noise = 0; }
  // Nobody does a step while f waits for what is to happen.
  template <class F>
  void standing_still(F f) {
    for (int rank = 0; rank < 4; ++rank) worker(rank).frozen = true;
    f();
    for (int rank = 0; rank < 4; ++rank) worker(rank).frozen = false;
  }
  void expect_all_at(double mean, std::initializer_list<int> ranks) {
    for (const int rank : ranks) expect_at(worker(rank).x, mean, 2e-5);
  }
};

TEST(AsyncTracking, SurvivorsEndAtTheirOwnMinimum) {
  Tracked t;
  t.start();
  ASSERT_TRUE(t.reaches(.2));
  t.cluster.kill(2);
  t.standing_still([&] { ASSERT_TRUE(t.until([&] { return t.count("dead", 2) == 3; })); });
  t.worker(2).thread.join();
  t.finish();
  t.expect_all_at(4 / 3., {0, 1, 3});
}

TEST(AsyncTracking, AWorkerThatIsStartedAgainCountsAgain) {
  Tracked t;
  t.start();
  ASSERT_TRUE(t.reaches(.1));
  t.kill(2);
  ASSERT_TRUE(t.until([&] { return t.count("dead", 2) == 3; }));
  for (const int rank : {0, 1, 3}) t.worker(rank).step_us = 20000;
  t.restart(2);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 2) == 3; }));
  for (int rank = 0; rank < 4; ++rank) t.worker(rank).step_us = 300;
  t.finish();
  t.expect_all_at(1.5, {0, 1, 2, 3});
}

TEST(AsyncTracking, AWorkerThatWasCutOffCountsAgain) {
  Tracked t;
  t.start();
  ASSERT_TRUE(t.reaches(.1));
  t.standing_still([&] {
    for (const int other : {0, 1, 2}) t.cluster.cut(3, other);
    ASSERT_TRUE(t.until([&] { return t.count("dead", 3) == 3 && t.count("dead", 0) == 1; }));
  });
  ASSERT_TRUE(t.each_steps(50));
  t.standing_still([&] {
    for (const int other : {0, 1, 2}) t.cluster.mend(3, other);
    ASSERT_TRUE(t.until([&] { return t.count("joined", 3) == 3; }));
  });
  t.finish();
  t.expect_all_at(1.5, {0, 1, 2, 3});
}

// What a worker saves. Taken at moments of their own, what four have saved would not fit together
// if y were in it.
struct Saved {
  std::vector<float> x, gradient;
};
Saved saved_by(Method& method, Quadratic& q) {
  Saved out;
  method.quiesce([&] {
    const std::vector<NamedTensor> state = method.state();
    ASSERT_EQ(state.size(), 1u);
    EXPECT_EQ(state[0].name, "tracking.gradient");
    const auto x = q.params.values().span<float>(), g = state[0].tensor.span<float>();
    out.x.assign(x.begin(), x.end());
    out.gradient.assign(g.begin(), g.end());
  });
  return out;
}

std::vector<float> train_from(const std::vector<Saved>& from, std::vector<Saved>& to, int steps,
                              float noise) {
  const int n = static_cast<int>(to.size());
  LocalCluster cluster(n);
  std::vector<float> x;
  on_workers(cluster, n, [&](int rank, Group& group) {
    Quadratic q(rank, kCoordinates);
    MethodOptions options;
    options.total_samples = n * steps * (from.empty() ? 1 : 2);
    if (!from.empty()) {
      const Saved& own = from[static_cast<std::size_t>(rank)];
      for (int step = 0; step < steps; ++step) q.gradient(noise);  // draws what was drawn before
      options.start_samples = n * steps;
      options.restore = [&](const std::vector<NamedTensor>& state) {
        std::ranges::copy(own.x, q.params.values().span<float>().begin());
        std::ranges::copy(own.gradient, Tensor(state.at(0).tensor).span<float>().begin());
        q.params.refresh();
      };
    }
    auto run =
        make_method("async-tracking", q.params, q.sgd, group, make_graph("ring", n), options);
    for (int step = 0; !run->done(); ++step) {
      q.gradient(noise);
      if (n > 1) std::this_thread::sleep_for(std::chrono::microseconds(200));
      run->step(.05);
      if (n == 1 || step == steps / 4 + rank)
        to[static_cast<std::size_t>(rank)] = saved_by(*run, q);
    }
    run->finish();
    const auto values = q.params.values().span<float>();
    if (rank == 0) x.assign(values.begin(), values.end());
  });
  return x;
}

TEST(AsyncTracking, OneWorkerGoesOnFromACheckpointToTheBit) {
  std::vector<Saved> first(1), second(1), whole(1);
  train_from({}, first, 20, .1f);
  const std::vector<float> resumed = train_from(first, second, 20, .1f);
  EXPECT_EQ(train_from({}, whole, 40, .1f), resumed);
  EXPECT_EQ(second[0].gradient, whole[0].gradient);
}

TEST(AsyncTracking, WorkersThatSavedAtUnlikeMomentsGoOnToTheMinimum) {
  std::vector<Saved> saved(4), again(4);
  train_from({}, saved, 600, 0);
  for (const Saved& each : saved) ASSERT_FALSE(each.gradient.empty());
  expect_at(train_from(saved, again, 600, 0), 1.5, 2e-5);
}

TEST(AsyncTracking, NeedsNoEqualWeightAndSaysSo) {
  LocalCluster cluster(1);
  Quadratic q(0, 2);
  MethodOptions options;
  options.settings.set("equal_weight", true);
  EXPECT_EQ(error_of<ConfigError>([&] {
              make_method("async-tracking", q.params, q.sgd, cluster.group(0),
                          make_graph("ring", 1), options);
            }),
            "method async-tracking has no setting equal_weight; it has none");
}

}  // namespace
}  // namespace gossamer::dist
