// Push-sum: sgp against exact means, on rounds that are not regular, and when exchanges are lost.
#include <algorithm>
#include <mutex>

#include "dist/around.h"
#include "dist/rounds/synchronous.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/methods/sgp.h"
#include "gossamer/dist/rounds/mixing.h"

namespace gossamer::dist {
namespace {

std::vector<float> after_pushes(int n, int rounds, bool overlap = false) {
  LocalCluster cluster(n);
  std::vector<float> out(static_cast<std::size_t>(n));
  on_workers(cluster, n, [&](int rank, Group& group) {
    Quadratic q(0, 4);
    auto method = make_method("sgp", q.params, q.sgd, group, make_graph("complete", n),
                              options_of("one-peer-exp-directed", n, rounds, overlap));
    Tensor(q.params.values()).slice(0, 4).fill(static_cast<float>(rank * rank));
    for (int step = 0; step < rounds; ++step) method->step(0);
    out[static_cast<std::size_t>(rank)] = q.params.values().span<float>()[0];
    method->finish();
    EXPECT_NEAR(static_cast<double>(q.params.values().span<float>()[0]),
                (n - 1) * (2 * n - 1) / 6.0, 1e-4);
  });
  return out;
}

TEST(Sgp, T17_ReachesTheExactMeanAfterLog2nStepsAndConvergesForOtherNumbers) {
  for (const auto& [n, rounds] : {std::pair{4, 2}, {8, 3}})
    for (const float x : after_pushes(n, rounds))
      EXPECT_FLOAT_EQ(x, static_cast<float>((n - 1) * (2 * n - 1)) / 6.0f);
  const auto spread = [](const std::vector<float>& x) {
    return *std::ranges::max_element(x) - *std::ranges::min_element(x);
  };
  EXPECT_GT(spread(after_pushes(6, 3)), 0.5f);
  EXPECT_LT(spread(after_pushes(6, 60)), 1e-3f);
  EXPECT_LT(spread(after_pushes(8, 4, true)), 1e-4f);  // one step later when it overlaps
}

// Its weight is no number when it arrives.
class DamagesWeights final : public Around {
 public:
  using Around::Around;

 private:
  void exchange(int peer, std::uint64_t session, const Tensor& out, const Tensor& in,
                std::span<const char> note, Seconds deadline) override {
    const float damaged = std::numeric_limits<float>::quiet_NaN();
    if (!note.empty()) note = {reinterpret_cast<const char*>(&damaged), sizeof damaged};
    Around::exchange(peer, session, out, in, note, deadline);
  }
};

TEST(Sgp, AWeightThatIsNoNumberIsAnErrorThatNamesItsSender) {
  LocalCluster cluster(2);
  std::atomic<int> refused = 0;
  on_workers(cluster, 2, [&](int rank, Group& inner) {
    DamagesWeights group(inner);
    Quadratic q(rank, 4);
    auto method = make_method("sgp", q.params, q.sgd, group, make_graph("complete", 2),
                              options_of("one-peer-exp-directed", 2, 4, false));
    try {
      method->step(0);
    } catch (const DistError& e) {
      refused += std::string(e.what()).find("worker " + std::to_string(1 - rank) +
                                            " sent the push-sum weight") != std::string::npos;
    }
  });
  EXPECT_EQ(refused, 2);
}

// Weights that keep columns only: the plain average would go wrong, push-sum does not.
TEST(Sgp, PushSumFindsTheMeanOnADirectedGraphThatIsNotRegular) {
  constexpr int n = 4;
  // 0 sends to all, everyone else to its successor only.
  const double column[n][n] = {
      {.25, .25, .25, .25}, {0, .5, .5, 0}, {0, 0, .5, .5}, {.5, 0, 0, .5}};
  std::vector<double> z = {1, -3, 10, 4}, w(n, 1.0);
  for (int step = 0; step < 300; ++step) {
    auto z2 = z, w2 = w;
    for (int i = 0; i < n; ++i) {
      double incoming = 0, sum = 0;
      for (int j = 0; j < n; ++j)
        if (j != i) incoming += column[j][i] * w[static_cast<std::size_t>(j)];
      const PushSum p = push_sum(column[i][i] * w[static_cast<std::size_t>(i)], incoming);
      for (int j = 0; j < n; ++j)
        if (j != i)
          sum += p.share(column[j][i] * w[static_cast<std::size_t>(j)]) *
                 z[static_cast<std::size_t>(j)];
      z2[static_cast<std::size_t>(i)] = p.own * z[static_cast<std::size_t>(i)] + sum;
      w2[static_cast<std::size_t>(i)] = p.weight;
    }
    z = z2, w = w2;
  }
  for (const double value : z) EXPECT_NEAR(value, 3, 1e-12);
  EXPECT_NEAR(w[1], .5, 1e-12) << "the graph should not be regular";
}

// Exchanges that are lost on both sides, now and then: what a worker did not give away it keeps.
class Loses final : public Around {
 public:
  Loses(Group& inner, double share) : Around(inner), share_(share) {}

 private:
  void exchange(int peer, std::uint64_t session, const Tensor& out, const Tensor& in,
                std::span<const char> note, Seconds deadline) override {
    const auto low = static_cast<std::uint64_t>(std::min(rank(), peer)),
               high = static_cast<std::uint64_t>(std::max(rank(), peer));
    if (Rng(session, low << 32 | high).uniform53() >= share_)
      return Around::exchange(peer, session, out, in, note, deadline);
    post({.kind = Event::Kind::exchanged,
          .peer = peer,
          .message = {},
          .ok = false,
          .session = session,
          .why = "lost"});
  }
  double share_;
};

// sgp without gradients on links that lose a fifth of all exchanges. Both sums are kept: of the
// weights, and (so the mean at the end) of w z.
void push_with_losses(const std::string& rounds, const char* graph, bool overlap) {
  constexpr int n = 7;
  LocalCluster cluster(n);
  std::mutex mutex;
  double weights = 0;
  i64 lost = 0;
  on_workers(cluster, n, [&](int rank, Group& inner) {
    Loses group(inner, .2);
    Quadratic q(0, 4);
    auto method = make_method("sgp", q.params, q.sgd, group, make_graph(graph, n),
                              options_of(rounds, n, 40, overlap));
    Tensor(q.params.values()).slice(0, 4).fill(static_cast<float>(rank * rank));
    for (int step = 0; step < 40; ++step) method->step(0);
    const i64 failed = method->stats().failed;
    method->finish();
    const std::scoped_lock lock(mutex);
    weights += static_cast<double>(method->state()[0].tensor.item());
    lost += failed;
    EXPECT_NEAR(static_cast<double>(q.params.values().span<float>()[0]),
                (n - 1) * (2 * n - 1) / 6.0, 1e-4);
  });
  EXPECT_GT(lost, 0);
  EXPECT_NEAR(weights, n, 1e-4);
}

TEST(Sgp, NothingIsLostWithALostExchange) {
  for (const bool overlap : {false, true}) {
    SCOPED_TRACE(overlap ? "overlapped" : "waited for");
    push_with_losses("", "tree", overlap);
    push_with_losses("one-peer-exp-directed", "complete", overlap);
  }
}

// On a tree the shares that a worker gives away differ; W is symmetric there, so weights stay 1
// whatever is lost.
TEST(Sgp, OnATreeEachShareThatIsNotTakenComesBackAsItIs) {
  LocalCluster cluster(6);
  on_workers(cluster, 6, [&](int rank, Group& inner) {
    Loses group(inner, .3);
    Quadratic q(rank, 4);
    auto method = make_method("sgp", q.params, q.sgd, group, make_graph("tree", 6),
                              options_of("", 6, 30, false));
    for (int step = 0; step < 30; ++step) {
      method->step(.1);
      EXPECT_NEAR(static_cast<double>(method->state()[0].tensor.item()), 1, 1e-5)
          << "worker " << rank << ", step " << step;
    }
    method->finish();
  });
}

TEST(Sgp, TheExactMeanIsOfTheMassesAndMovesNothing) {
  constexpr int n = 5;
  LocalCluster cluster(n);
  on_workers(cluster, n, [&](int rank, Group& group) {
    Quadratic q(0, 4);
    SgpOptions waits;
    waits.overlap = false;
    SgpMethod method(method_traits("sgp"),
                     {q.params, q.sgd, group, make_graph("ring", n), options_of("", n, 10)}, waits);
    Tensor(q.params.values()).slice(0, 4).fill(static_cast<float>(rank));
    method.state()[0].tensor.fill(static_cast<float>(1 + rank));
    ASSERT_TRUE(method.average_exactly());
    const double mean = (0 * 1 + 1 * 2 + 2 * 3 + 3 * 4 + 4 * 5) / 15.0;
    EXPECT_NEAR(static_cast<double>(q.params.values().span<float>()[3]), mean, 1e-6);
    EXPECT_EQ(method.state()[0].tensor.item(), static_cast<float>(1 + rank))
        << "the masses, w x, have the sum they had";
    for (int step = 0; step < 3; ++step) method.step(0);
    EXPECT_NEAR(static_cast<double>(q.params.values().span<float>()[3]), mean, 1e-6);
    method.finish();
    EXPECT_NEAR(static_cast<double>(q.params.values().span<float>()[3]), mean, 1e-6);
  });
}

}  // namespace
}  // namespace gossamer::dist
