// Deaths in the middle of training: the others go on, finish, and agree.
#include <algorithm>

#include "dist/around.h"
#include "dist/workers.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/local/local_cluster.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

MethodOptions options_for(int n, int gradients_each) {
  MethodOptions options;
  options.total_samples = static_cast<double>(n) * gradients_each;
  options.seed = 5;
  options.exchange_timeout_s = 5;
  return options;
}

struct Survivors {
  std::vector<std::vector<float>> x;
  std::vector<MethodStats> stats;
  std::atomic<int> deaths_seen = 0;
};

// Worker `victims[k]` dies when a fraction (k + 1)/5 of the training is done.
void run(const std::string& name, const char* graph, int n, const std::vector<int>& victims,
         Survivors& out, MethodOptions options, int step_us = 200) {
  LocalCluster cluster(n);
  out.x.resize(static_cast<std::size_t>(n));
  out.stats.resize(static_cast<std::size_t>(n));
  options.on_fault = [&](const std::string& what, int) { out.deaths_seen += what == "dead"; };
  Pace pace(n);
  on_workers(cluster, n, [&](int rank, Group& group) {
    const Pace::Leaves leaves{pace, rank};
    Quadratic q(rank, 40);
    auto method = make_method(name, q.params, q.sgd, group, make_graph(graph, n), options);
    const auto victim = std::ranges::find(victims, rank);
    for (;;) {
      if (victim != victims.end() &&
          method->samples_seen() >=
              options.total_samples * static_cast<double>(victim - victims.begin() + 1) / 5) {
        out.stats[static_cast<std::size_t>(rank)] = method->stats();
        return cluster.kill(rank);
      }
      if (method->done()) break;
      q.gradient(.01f);
      std::this_thread::sleep_for(std::chrono::microseconds(step_us));
      method->step(.05);
      pace.step(rank);
    }
    pace.leaves(rank);
    method->finish();
    const auto x = q.params.values().span<float>();
    out.x[static_cast<std::size_t>(rank)].assign(x.begin(), x.end());
    out.stats[static_cast<std::size_t>(rank)] = method->stats();
  });
}

class Faults : public testing::TestWithParam<const char*> {};

TEST_P(Faults, ThreeOfFourFinishWhenOneDies) {
  Survivors s;
  run(GetParam(), "ring", 4, {2}, s, options_for(4, 300));
  EXPECT_EQ(s.deaths_seen, 3);
  auto gradients = static_cast<double>(s.stats[2].gradients);
  for (const int rank : {0, 1, 3}) {
    const auto r = static_cast<std::size_t>(rank);
    EXPECT_EQ(s.x[r], s.x[0]);
    EXPECT_EQ(s.stats[r].alive, 3);
    EXPECT_NEAR(s.x[r][0], 4 / 3.0, .5);
    gradients += static_cast<double>(s.stats[r].gradients);
  }
  EXPECT_TRUE(s.x[2].empty());
  EXPECT_NEAR(gradients, 1200, 120);  // the living finish the budget
}

TEST_P(Faults, TwoOfFiveMayDieOneAfterTheOther) {
  Survivors s;
  run(GetParam(), "exponential", 5, {0, 4}, s, options_for(5, 250));
  for (const std::size_t r : {1u, 2u, 3u}) {
    EXPECT_EQ(s.x[r], s.x[1]);
    EXPECT_EQ(s.stats[r].alive, 3);
  }
}

TEST_P(Faults, TheCentreOfAStarMayDie) {
  Survivors s;
  run(GetParam(), "star", 4, {0}, s, options_for(4, 300), 2000);
  for (const std::size_t r : {1u, 2u, 3u}) EXPECT_EQ(s.x[r], s.x[1]);
  if (std::string(GetParam()) != "allreduce") {
    i64 with_leaves = 0;
    for (const EdgeStats& e : s.stats[3].edges) with_leaves += e.peer != 0 ? e.exchanges : 0;
    EXPECT_GT(with_leaves, 0) << "the leaves found each other";
  }
}

TEST_P(Faults, FewerThanMinWorkersIsAnErrorThatSaysSo) {
  Survivors s;
  MethodOptions options = options_for(3, 2000);
  options.min_workers = 3;
  try {
    run(GetParam(), "ring", 3, {1}, s, options);
    FAIL() << "no error";
  } catch (const DistError& e) {
    EXPECT_NE(std::string(e.what()).find("at least 3 are wanted"), std::string::npos) << e.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Methods, Faults,
                         testing::Values("a2cid2", "adpsgd", "async-tracking", "allreduce"),
                         [](const auto& test) { return word(test.param); });

// A worker that dies just when this process has stood still looks as if it had given this one up.
class SeenAsGivenUp final : public Around {
 public:
  using Around::Around;
  std::string given_up_by(int peer) const override {
    return inner_.control().alive(peer) ? "" : "this process stood still";
  }
};

TEST(GivenUp, MoreThanHalfOfAllGoOnWhateverADeathLooksLike) {
  for (const int n : {3, 4}) {  // two of them live on
    LocalCluster cluster(n);
    std::atomic<int> finished = 0, told = 0;
    on_workers(cluster, n, [&](int rank, Group& plain) {
      SeenAsGivenUp group(plain);
      Quadratic q(rank, 10);
      auto method = make_method("adpsgd", q.params, q.sgd, group, make_graph("complete", n),
                                options_for(n, 60));
      for (int step = 0; !method->done(); ++step) {
        if (rank >= 2 && step == 10) return cluster.kill(rank);
        q.gradient(.01f);
        method->step(.05);
      }
      const std::string error = error_of([&] { method->finish(); });
      finished += error == "no error";
      told += error.find("has given this worker up at the end") != error.npos;
    });
    EXPECT_EQ(finished, n == 3 ? 2 : 0);
    EXPECT_EQ(told, n == 3 ? 0 : 2);
  }
}

TEST(Leaving, AWorkerThatLeavesWithoutFinishingIsMissedLikeADeadOne) {
  LocalCluster cluster(3);
  std::atomic<int> left = 0;
  on_workers(cluster, 3, [&](int rank, Group& group) {
    Quadratic q(rank, 10);
    MethodOptions options = options_for(3, 200);
    options.on_fault = [&](const std::string& what, int peer) {
      left += what == "left" && peer == 2;
    };
    auto method = make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", 3), options);
    for (int step = 0; !method->done(); ++step) {
      if (rank == 2 && step == 30) return;
      q.gradient();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      method->step(.05);
    }
    method->finish();
    EXPECT_EQ(method->stats().alive, 2);
  });
  EXPECT_EQ(left, 2);
}

// Its exchanges fail as they begin, and never let go of their buffers.
class Jammed final : public Around {
 public:
  using Around::Around;

 private:
  void exchange(int, std::uint64_t, const Tensor&, const Tensor&, std::span<const char>,
                Seconds) override {
    fail<DistError>("the GPU has failed");
  }
  void drain(Seconds) override { fail<DistError>("an exchange did not end"); }
};

TEST(Leaving, AWorkerWhoseExchangesFailAndDoNotLetGoSaysItsFirstError) {
  LocalCluster cluster(2);
  on_workers(cluster, 2, [&](int rank, Group& inner) {
    Jammed jammed(inner);
    Quadratic q(rank, 10);
    auto method =
        make_method("a2cid2", q.params, q.sgd, rank == 0 ? static_cast<Group&>(jammed) : inner,
                    make_graph("ring", 2), options_for(2, 100));
    const auto train = [&] {
      while (!method->done()) {
        q.gradient();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        method->step(.05);
      }
      method->finish();
    };
    if (rank == 1) return train();
    try {
      train();
      ADD_FAILURE() << "no error";
    } catch (const DistError& e) {
      EXPECT_STREQ(e.what(), "the GPU has failed");
    }
  });
}

TEST(Leaving, ASlowWorkerDoesNotHoldTheOthersUp) {
  LocalCluster cluster(4);
  std::vector<MethodStats> stats(4);
  on_workers(cluster, 4, [&](int rank, Group& group) {
    Quadratic q(rank, 10);
    auto method =
        make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", 4), options_for(4, 100));
    while (!method->done()) {
      q.gradient();
      std::this_thread::sleep_for(std::chrono::microseconds(rank == 1 ? 40000 : 2000));
      method->step(.05);
    }
    method->finish();
    stats[static_cast<std::size_t>(rank)] = method->stats();
  });
  EXPECT_LT(2 * stats[1].gradients, stats[0].gradients);
  EXPECT_GT(stats[1].exchanges, 0);
}

// Kills its worker in one phase of an exchange: when it sends a message of one kind for the fifth
// time, or begins to transfer.
enum class Phase {
  says_available,
  proposes,
  accepts,
  commits,
  begins_transfer,
  transfers,
  has_stopped
};

class DiesIn final : public Around {
 public:
  DiesIn(Group& inner, Phase phase, std::function<void()> die)
      : Around(inner), phase_(phase), die_(std::move(die)) {}

 private:
  void passes(Phase phase, int times = 5) {
    if (phase != phase_ || ++count_ != times) return;
    die_();
    throw DistError("dead");  // its communication thread does nothing more
  }
  void send(int peer, const Message& m) override {
    // one neighbour hears it, the others don't
    if (m.type == MessageType::stopped) passes(Phase::has_stopped, 2);
    if (m.type == MessageType::avail) passes(Phase::says_available);
    if (m.type == MessageType::propose) passes(Phase::proposes);
    if (m.type == MessageType::accept) passes(Phase::accepts);
    Around::send(peer, m);
    if (m.type == MessageType::commit) passes(Phase::commits);
  }
  void exchange(int peer, std::uint64_t session, const Tensor& out, const Tensor& in,
                std::span<const char> note, Seconds deadline) override {
    passes(Phase::begins_transfer);
    Around::exchange(peer, session, out, in, note, deadline);
    passes(Phase::transfers);
  }

  const Phase phase_;
  std::function<void()> die_;
  int count_ = 0;
};

class Phases : public testing::TestWithParam<Phase> {};

TEST_P(Phases, ADeathThereStopsNobody) {
  LocalCluster cluster(4);
  std::vector<std::vector<float>> x(4);
  std::vector<MethodStats> stats(4);
  std::atomic<bool> died = false;
  on_workers(cluster, 4, [&](int rank, Group& inner) {
    DiesIn group(inner, GetParam(), [&] {
      died = true;
      cluster.kill(1);
    });
    Quadratic q(rank, 40);
    auto method =
        make_method("a2cid2", q.params, q.sgd, rank == 1 ? static_cast<Group&>(group) : inner,
                    make_graph("ring", 4), options_for(4, 200));
    while (!method->done() && inner.control().alive(rank)) {
      q.gradient(.01f);
      // time to get there on a full machine
      std::this_thread::sleep_for(std::chrono::microseconds(died ? 200 : 2000));
      method->step(.05);
    }
    if (!inner.control().alive(rank)) return;
    method->finish();
    const auto values = q.params.values().span<float>();
    x[static_cast<std::size_t>(rank)].assign(values.begin(), values.end());
    stats[static_cast<std::size_t>(rank)] = method->stats();
  });
  EXPECT_TRUE(died);
  for (const std::size_t rank : {0u, 2u, 3u}) {
    EXPECT_EQ(stats[rank].alive, 3) << rank;
    EXPECT_EQ(x[rank], x[0]) << rank;
    EXPECT_FALSE(x[rank].empty());
  }
}
INSTANTIATE_TEST_SUITE_P(All, Phases,
                         testing::Values(Phase::says_available, Phase::proposes, Phase::accepts,
                                         Phase::commits, Phase::begins_transfer, Phase::transfers,
                                         Phase::has_stopped));

// A collective that reports failure to one worker although it came through: that worker is then a
// step behind the other survivors.
class Flaky final : public Around {
 public:
  Flaky(Group& inner, int fails_at, std::function<void()> at_failure)
      : Around(inner), fails_at_(fails_at), at_failure_(std::move(at_failure)) {}

 private:
  void all_reduce_sum(const Tensor& x) override {
    Around::all_reduce_sum(x);
    if (++calls_ == fails_at_) {
      at_failure_();
      throw DistError("connection closed");
    }
  }
  using Around::all_reduce_sum;

  int fails_at_, calls_ = 0;
  std::function<void()> at_failure_;
};

TEST(AllReduce, AfterADeathAllReduceBringsThoseBehindUpToTheOthers) {
  LocalCluster cluster(4);
  std::vector<std::vector<float>> x(4);
  std::vector<double> seen(4);
  on_workers(cluster, 4, [&](int rank, Group& inner) {
    Flaky group(inner, rank == 1 ? 20 : -1, [&] { cluster.kill(3); });
    Quadratic q(rank, 10, .9f);
    auto method =
        make_method("allreduce", q.params, q.sgd, group, make_graph("ring", 4), options_for(4, 60));
    while (!method->done()) q.gradient(), method->step(.05);
    const auto values = q.params.values().span<float>();
    x[static_cast<std::size_t>(rank)].assign(values.begin(), values.end());
    seen[static_cast<std::size_t>(rank)] = method->samples_seen();
    method->finish();
  });
  for (const std::size_t r : {1u, 2u}) {
    EXPECT_EQ(x[r], x[0]);
    EXPECT_EQ(seen[r], seen[0]);
  }
}

}  // namespace
}  // namespace gossamer::dist
