// Deaths before the first step: the others begin without the dead.
#include "dist/around.h"
#include "dist/workers.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/local/local_cluster.h"

namespace gossamer::dist {
namespace {

// Its worker dies in the collective of this number.
class DiesIn final : public Around {
 public:
  DiesIn(LocalCluster& cluster, Group& inner, int number)
      : Around(inner), cluster_(cluster), left_(number) {}

 private:
  void live() {
    if (left_-- > 0) return;
    cluster_.kill(inner_.rank());
    fail<DistError>("killed by the test");
  }
  void all_reduce_sum(const Tensor& x) override {
    live();
    Around::all_reduce_sum(x);
  }
  void all_reduce_sum(std::span<double> x, Seconds patience) override {
    live();
    Around::all_reduce_sum(x, patience);
  }
  void barrier() override {
    live();
    Around::barrier();
  }
  LocalCluster& cluster_;
  int left_;
};

constexpr int kBeforeAll = -1;

// Of four workers the third dies; the three others begin at their mean, train and agree.
void check_that_the_others_begin(const std::string& name, int collective) {
  LocalCluster cluster(4);
  std::vector<std::vector<float>> ends(4);
  std::atomic<int> deaths_seen = 0, begun = 0;
  MethodOptions options;
  options.total_samples = 4 * 100;
  options.seed = 5;
  options.on_fault = [&](const std::string& what, int peer) {
    deaths_seen += what == "dead" && peer == 2;
  };
  on_workers(cluster, 4, [&](int rank, Group& inner) {
    if (rank == 2 && collective == kBeforeAll) return cluster.kill(rank);
    DiesIn dies(cluster, inner, collective);
    Group& group = rank == 2 ? static_cast<Group&>(dies) : inner;
    Quadratic q(rank, 8);
    auto method = make_method(name, q.params, q.sgd, group, make_graph("ring", 4), options);
    EXPECT_NEAR(q.params.compute_f32().span<float>()[0], 4 / 3.0, 1e-5);  // of 0, 1 and 3
    ++begun;
    while (!method->done()) {
      q.gradient();
      method->step(.05);
    }
    method->finish();
    EXPECT_EQ(method->stats().alive, 3);
    const auto x = q.params.values().span<float>();
    ends[static_cast<std::size_t>(rank)].assign(x.begin(), x.end());
  });
  EXPECT_EQ(begun, 3);
  EXPECT_EQ(deaths_seen, 3);
  EXPECT_TRUE(ends[2].empty());
  for (const std::size_t rank : {1u, 3u}) EXPECT_EQ(ends[rank], ends[0]);
}

// A worker that goes on from a file may need long to read it, while others train already.
void check_that_nothing_is_given_away(const std::string& name) {
  constexpr float kUnloaded = 1e6f;
  LocalCluster cluster(2);
  std::atomic<bool> trained = false;
  float most = 0;
  on_workers(cluster, 2, [&](int rank, Group& group) {
    Quadratic q(rank, 8);
    Tensor(q.params.values()).fill(kUnloaded);
    MethodOptions options;
    options.start_samples = 2 * 10;
    options.total_samples = 2 * 400;
    options.restore = [&](const std::vector<NamedTensor>& state) {
      while (rank == 1 && !trained) std::this_thread::yield();
      Tensor(q.params.values()).fill(1);
      for (const NamedTensor& each : state)
        if (each.tensor.numel() == q.params.size()) Tensor(each.tensor).fill(1);
      q.params.refresh();
    };
    auto method = make_method(name, q.params, q.sgd, group, make_graph("ring", 2), options);
    for (int step = 0; !method->done(); ++step) {
      q.params.settle_grads();
      method->step(0);
      if (rank == 1) continue;
      method->read_model([&] { most = std::max(most, q.params.values().span<float>()[0]); });
      // so long that an exchange would come through, if the other one answered
      if (step < 200) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (step == 200) trained = true;
    }
    method->finish();
  });
  EXPECT_FLOAT_EQ(most, 1) << name;
}

// Restored after make_method() has returned, it gave away a part of kUnloaded in every run.
TEST(Resumed, AWorkerThatLoadsSlowlyGivesNothingAway) {
  for (const char* name : {"a2cid2", "adpsgd", "async-tracking"})
    check_that_nothing_is_given_away(name);
}

class Begin : public testing::TestWithParam<const char*> {};

TEST_P(Begin, WithoutAWorkerThatDiedBeforeOrInAnyOfTheFirstCollectives) {
  for (const int collective : {kBeforeAll, 0, 1, 2}) {
    SCOPED_TRACE(testing::Message() << "collective " << collective);
    check_that_the_others_begin(GetParam(), collective);
  }
}
INSTANTIATE_TEST_SUITE_P(Methods, Begin,
                         testing::Values("a2cid2", "adpsgd", "async-tracking", "allreduce", "dpsgd",
                                         "sgp", "local-sgd", "diloco", "noloco"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(BeginAlone, FewerThanMinWorkersAreAnError) {
  LocalCluster cluster(3);
  MethodOptions options;
  options.total_samples = 30;
  options.min_workers = 3;
  try {
    on_workers(cluster, 3, [&](int rank, Group& group) {
      if (rank == 2) return cluster.kill(rank);
      Quadratic q(rank, 4);
      make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", 3), options);
    });
    FAIL() << "no error";
  } catch (const DistError& e) {
    EXPECT_NE(std::string(e.what()).find("at least 3 are wanted"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace gossamer::dist
