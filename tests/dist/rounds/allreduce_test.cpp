// Gradients summed bucket by bucket under backward: by the collectives of the host, by NCCL and
// over the host between GPUs (fakes of both), in one order, the same bits for all, with workers
// that are late, that die in every phase, and that die together.
#include "dist/rounds/allreduce.h"

#include "gossamer/dist/local/local_cluster.h"

namespace gossamer::dist {
namespace {

class AllReduceWays : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, AllReduceWays, testing::Values(Way::host, Way::staged, Way::nccl),
                         [](const auto& test) {
                           return std::string(test.param == Way::host     ? "host"
                                              : test.param == Way::staged ? "staged"
                                                                          : "nccl");
                         });

TEST_P(AllReduceWays, UnderBackwardIsWhatItIsAfterItBitForBit) {
  for (const char* optimizer : {"sgd", "adam"}) {
    const Trial plain{.way = Way::host, .prepared = false, .optimizer = optimizer};
    const Outcome whole = train(plain);
    expect_one_model(whole, plain);
    EXPECT_EQ(whole.early, 0);
    const Trial trial{.way = GetParam(), .optimizer = optimizer};
    const Outcome pieces = train(trial);
    expect_one_model(pieces, trial);
    EXPECT_EQ(pieces.x, whole.x);
    EXPECT_EQ(pieces.early, trial.workers * (trial.steps - 1))
        << "the first step alone is summed when it is over";
  }
}

TEST_P(AllReduceWays, ClipsTheMeanOfTheGradients) {
  const Trial trial{.way = GetParam(), .clip = .01},
      plain{.way = Way::host, .prepared = false, .clip = .01};
  EXPECT_EQ(train(trial).x, train(plain).x);
}

TEST_P(AllReduceWays, WaitForALateWorkerAndSumTheSame) {
  const Trial trial{.way = GetParam(), .steps = 6, .late = 2};
  const Outcome out = train(trial);
  expect_one_model(out, trial);
  EXPECT_EQ(out.x, train({.way = Way::host, .steps = 6, .prepared = false}).x);
}

TEST_P(AllReduceWays, ADeathInAnyPhaseIsSurvivedByWorkersWhoStayAlike) {
  for (const bool prepared : {true, false})
    for (const When when : {When::forward, When::halfway, When::in_step, When::after_step})
      for (const int step : {0, 5})
        for (const bool notices : {true, false}) {
          if (GetParam() != Way::nccl && !notices) continue;
          SCOPED_TRACE("prepared " + std::to_string(prepared) + ", phase " +
                       std::to_string(static_cast<int>(when)) + ", step " + std::to_string(step) +
                       (notices ? ", noticed" : ""));
          Trial trial{.way = GetParam(),
                      .steps = 9,
                      .prepared = prepared,
                      .faults = {.notices = notices},
                      .dies = {{step % 4, {step, when}}}};
          expect_one_model(train(trial), trial);
        }
}

TEST_P(AllReduceWays, TwoDeathsAtOnceAndOneAfterTheOther) {
  for (const auto& dies : std::vector<std::map<int, std::pair<int, When>>>{
           {{0, {4, When::halfway}}, {2, {4, When::halfway}}},
           {{1, {4, When::halfway}}, {3, {4, When::in_step}}},
           {{0, {3, When::in_step}}, {1, {4, When::forward}}},
           {{0, {2, When::halfway}}, {1, {4, When::after_step}}, {3, {6, When::in_step}}}})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Trial trial{.way = GetParam(),
                        .steps = 9,
                        .faults = {.notices = seed % 2 == 0},
                        .dies = dies,
                        .seed = seed};
      expect_one_model(train(trial), trial);
    }
}

// Worker i's gradient is 2^i everywhere, so the end tells how often each set of workers was summed.
TEST_P(AllReduceWays, NoGradientIsLostOrAppliedTwiceWhenAWorkerDies) {
  constexpr int n = 4, steps = 10, at = 4, victim = 2;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    fake::Machine machine(n, seed, {.notices = seed % 2 == 0});
    LocalCluster cluster(n);
    std::array<float, n> moved{};
    {
      const Devices devices(machine, n);
      on_workers(cluster, n, [&](int rank, Group& inner) {
        Summed group(inner, [&](Group& g, std::size_t buckets) {
          return reducer_of(GetParam(), g, machine, buckets);
        });
        std::vector<NamedTensor> all;
        for (int i = 0; i < 3; ++i) all.push_back({std::to_string(i), Tensor::zeros({64})});
        FlatParams params(all);
        nn::Sgd sgd(params, {.momentum = 0});
        params.zero_grad();
        params.settle_grads();
        MethodOptions options = options_of("", n, steps);
        options.settings.set("bucket_mb", 256. / (1 << 20));
        auto method =
            make_method("allreduce", params, sgd, group, make_graph("complete", n), options);
        for (int step = 0; step < steps; ++step) {
          Tensor(params.grads()).fill(static_cast<float>(1 << rank));
          method->prepare(1);
          std::optional<Reaper> reaper;
          // somewhere in what follows
          if (rank == victim && step == at)
            reaper.emplace(machine, cluster, rank, 150 * (seed - 1));
          method->step(1);
          if (reaper) fail<Error>("killed");
        }
        moved[static_cast<std::size_t>(rank)] = -params.values().span<float>()[0];
      });
    }
    EXPECT_THAT(machine.problems(), testing::IsEmpty());
    const double all = (1 + 2 + 4 + 8) / 4.0, left = (1 + 2 + 8) / 3.0;
    // The victim may have been ahead of all others by a step, which they then did again without it.
    std::vector<double> possible;
    for (const int whole : {at - 1, at, at + 1})
      possible.push_back(whole * all + (steps - whole) * left);
    EXPECT_THAT(possible,
                testing::Contains(testing::DoubleNear(static_cast<double>(moved[0]), 1e-3)))
        << "seed " << seed;
    for (const int rank : {1, 3}) EXPECT_EQ(moved[static_cast<std::size_t>(rank)], moved[0]);
  }
}

// --- backward as a recorded graph

// A pass whose gradients the compute stream writes, a bucket after the other, each step and worker
// others. The host only enqueues them.
class LanePass {
 public:
  LanePass(fake::Gpu& gpu, int rank, bool by_step) : gpu_(gpu), rank_(rank), by_step_(by_step) {
    std::vector<NamedTensor> all;
    for (int i = 0; i < 3; ++i)
      all.push_back({std::to_string(i), at_.emplace_back(Tensor::zeros({kFloats}))});
    params = std::make_unique<FlatParams>(all);
    windows_ = params->windows(params->grads());
  }
  static float value(int step, int bucket, int rank, bool by_step) {
    return static_cast<float>((1 << rank) * (by_step ? step * 3 + bucket + 1 : 1));
  }
  void operator()() {
    params->zero_grad();
    gpu_.run(DevicePort::Stream::compute, [this] { ++step_; });
    for (const int part : {2, 0, 1}) {  // not the order of the block
      gpu_.run(DevicePort::Stream::compute, [this, part] {
        windows_[static_cast<std::size_t>(part)].tensor.fill(value(step_, part, rank_, by_step_));
      });
      // the block begins with what was registered last
      Slot& slot = *at_[static_cast<std::size_t>(2 - part)].slot();
      slot.stale = false;
      slot.on_ready();
    }
  }
  static constexpr i64 kFloats = 64;
  std::unique_ptr<FlatParams> params;

 private:
  fake::Gpu& gpu_;
  const int rank_;
  const bool by_step_;
  std::vector<Tensor> at_;
  std::vector<NamedTensor> windows_;
  int step_ = -1;  // on the device
};

struct Launched {
  std::vector<std::vector<float>> x;
  std::vector<std::string> problems;
};
// Some steps as launches of a graph, the others as they stand (all of them: never).
Launched train_launched(Way way, int n, int steps, bool never, std::uint64_t seed, bool by_step,
                        int victim = -1, int dies_at = -1) {
  fake::Machine machine(n, seed, {.notices = seed % 2 == 0});
  LocalCluster cluster(n);
  Launched out{.x = std::vector<std::vector<float>>(static_cast<std::size_t>(n)), .problems = {}};
  {
    const Devices devices(machine, n);
    on_workers(cluster, n, [&](int rank, Group& inner) {
      Summed group(inner, [&](Group& g, std::size_t buckets) {
        EXPECT_EQ(buckets, 3u);
        return reducer_of(way, g, machine, buckets);
      });
      fake::Gpu& gpu = machine.gpu(rank);
      LanePass pass(gpu, rank, by_step);
      nn::Sgd sgd(*pass.params, {.momentum = 0});
      MethodOptions options = options_of("", n, steps);
      options.settings.set("bucket_mb", 1. * LanePass::kFloats * sizeof(float) / (1 << 20));
      auto method =
          make_method("allreduce", *pass.params, sgd, group, make_graph("complete", n), options);
      std::optional<fake::Gpu::Graph> graph;
      std::vector<std::size_t> order;
      for (int step = 0; step < steps; ++step) {
        method->prepare(1);
        if (never || step < 2 || step % 5 == 4) {  // before it is recorded; a smaller batch
          pass();
        } else {
          if (!graph) {
            order = pass.params->record_ready([&] { graph = gpu.capture([&] { pass(); }); });
            EXPECT_EQ(order, (std::vector<std::size_t>{2, 0, 1}));
          }
          gpu.launch(*graph);
          pass.params->replay_ready(order);
        }
        std::optional<Reaper> reaper;
        if (rank == victim && step == dies_at)
          reaper.emplace(machine, cluster, rank, 150 * (seed - 1));
        method->step(1);
        if (reaper) fail<Error>("killed");
      }
      out.x[static_cast<std::size_t>(rank)] = copy(pass.params->values());
      method->finish();
    });
  }
  out.problems = machine.problems();
  return out;
}

class AllReduceOfGraphs : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, AllReduceOfGraphs, testing::Values(Way::staged, Way::nccl),
                         [](const auto& test) {
                           return std::string(test.param == Way::staged ? "staged" : "nccl");
                         });

// Of each launch its own gradients: sums wait on the device for the event of their bucket, which
// every launch marks anew.
TEST_P(AllReduceOfGraphs, SumsWhatEachLaunchHasMade) {
  constexpr int n = 3, steps = 14;
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    for (const bool never : {true, false}) {
      SCOPED_TRACE(testing::Message()
                   << "seed " << seed << (never ? ", as they stand" : ", launched"));
      const Launched out = train_launched(GetParam(), n, steps, never, seed, true);
      EXPECT_THAT(out.problems, testing::IsEmpty());
      for (int part = 0; part < 3; ++part) {
        float x = 0;
        for (int step = 0; step < steps; ++step) {
          float sum = 0;
          for (int rank = 0; rank < n; ++rank) sum += LanePass::value(step, part, rank, true);
          x -= sum * static_cast<float>(1.0 / n);
        }
        for (int rank = 0; rank < n; ++rank)
          for (i64 i = 0; i < LanePass::kFloats; ++i)
            ASSERT_NEAR(out.x[static_cast<std::size_t>(rank)]
                             [static_cast<std::size_t>(part * LanePass::kFloats + i)],
                        x, 1e-4f * std::abs(x))
                << "worker " << rank << ", part " << part;
      }
    }
}

TEST_P(AllReduceOfGraphs, ADeathIsSurvivedAndSumsAreMadeAgainFromTheSameGradients) {
  constexpr int n = 4, steps = 10, victim = 2;
  for (const int at : {3, 4, 6})  // launched, as it stands, launched
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", step " << at);
      const Launched out = train_launched(GetParam(), n, steps, false, seed, false, victim, at);
      EXPECT_THAT(out.problems, testing::IsEmpty());
      const double all = (1 + 2 + 4 + 8) / 4.0, left = (1 + 2 + 8) / 3.0;
      std::vector<double> possible;
      for (const int whole : {at - 1, at, at + 1})
        possible.push_back(-(whole * all + (steps - whole) * left));
      EXPECT_THAT(possible,
                  testing::Contains(testing::DoubleNear(static_cast<double>(out.x[0][0]), 1e-3)));
      for (const std::size_t rank : {1u, 3u}) EXPECT_EQ(out.x[rank], out.x[0]);
    }
}

}  // namespace
}  // namespace gossamer::dist
