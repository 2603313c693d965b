// Gradients summed bucket by bucket under backward: by the collectives of the host, by NCCL and over the host between GPUs (fakes of both), in one
// order, the same bits for all, with workers that are late, that die in every phase, and that die together.
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "dist_gpu_fakes.h"
#include "dist_small_net.h"
#include "dist_synchronous.h"
#include "error_of.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/dist/gossip/clock.h"
#include "gossamer/dist/gpu/nccl_reducer.h"

namespace gossamer::dist {
namespace {

constexpr int kLayers = 4, kWidth = 20;
constexpr i64 kBucket = 1500;              // a weight matrix each, and all of the biases: five buckets
constexpr int kBuckets = kLayers + 1;

// x, and in its backward a call: what comes before it in the model has no gradients yet.
Tensor gate(const Tensor& x, const std::function<void()>& call) {
  Tensor y = x.clone();
  record("gate", y, {x}, {}, [call](const Tensor& g, const std::vector<Tensor>&) {
    call();
    return Grads{g};
  });
  return y;
}

struct Net : SmallNet {
  explicit Net(int rank) : SmallNet(rank, kLayers, kWidth) {}
  // halfway: called when backward has the gradients of two of the four layers.
  Tensor loss(const std::function<void()>& halfway) {
    return SmallNet::loss([&](const Tensor& x) { return gate(x, halfway); });
  }
};

// Counts the buckets that have been summed (host, staged), or are in the stream (NCCL).
class Counted final : public Reducer {
 public:
  Counted(std::unique_ptr<Reducer> inner, std::atomic<int>& added) : inner_(std::move(inner)), added_(added) {}
  void mark(std::size_t bucket) override { inner_->mark(bucket); }
  void interrupt() override { inner_->interrupt(); }
  void open(Collectives& all, const std::vector<int>& members) override { inner_->open(all, members); }
  void add(std::size_t bucket, const Tensor& own, Tensor sum) override {
    inner_->add(bucket, own, sum);
    ++added_;
  }
  void complete() override { inner_->complete(); }
  void give_up() override { inner_->give_up(); }

 private:
  const std::unique_ptr<Reducer> inner_;
  std::atomic<int>& added_;
};

enum class Way { host, staged, nccl };
enum class When { never, forward, halfway, in_step, after_step };

struct Trial {
  Way way = Way::nccl;
  int workers = 4, steps = 12;
  bool prepared = true;
  fake::Faults faults{};
  std::map<int, std::pair<int, When>> dies{};      // worker -> step, when
  int late = -1;                                   // a worker that sleeps in the middle of each backward
  double clip = 0;
  const char* optimizer = "sgd";
  std::uint64_t seed = 1;
};

// Devices run beside the workers, each in a thread of its own.
class Devices {
 public:
  explicit Devices(fake::Machine& machine, int n) {
    for (int i = 0; i < n; ++i)
      threads_.emplace_back([this, &machine, i] {
        while (!over_)
          if (!machine.step(i)) std::this_thread::sleep_for(std::chrono::microseconds(20));
      });
  }
  ~Devices() {
    over_ = true;
    for (std::thread& t : threads_) t.join();
  }

 private:
  std::atomic<bool> over_ = false;
  std::vector<std::thread> threads_;
};

// Kills a worker a while from now; its destructor waits for that.
class Reaper {
 public:
  Reaper(fake::Machine& machine, LocalCluster& cluster, int rank, std::uint64_t us)
      : thread_([&machine, &cluster, rank, us] {
          std::this_thread::sleep_for(std::chrono::microseconds(us));
          machine.kill(rank);
          cluster.kill(rank);
        }) {}
  ~Reaper() { thread_.join(); }

 private:
  std::thread thread_;
};

bool soon(const std::function<bool()>& test) {
  for (const double limit = wall_seconds() + 20; !test(); std::this_thread::sleep_for(std::chrono::microseconds(50)))
    if (wall_seconds() > limit) return false;
  return true;
}

std::unique_ptr<Reducer> reducer_of(Way way, Group& group, fake::Machine& machine, std::size_t buckets, double abort_s = 30) {
  fake::Gpu& gpu = machine.gpu(group.rank());
  GpuReducer::Parts parts{.group = group, .port = gpu, .buckets = buckets, .limit_s = 30, .abort_s = abort_s};
  if (way == Way::nccl) return std::make_unique<NcclReducer>(std::move(parts), gpu, 4);
  if (way == Way::staged) return std::make_unique<StagedReducer>(std::move(parts));
  return std::make_unique<HostReducer>();
}

struct Outcome {
  std::vector<std::vector<float>> x;               // of each worker after its last step; empty: it died
  std::vector<MethodStats> stats;
  std::vector<std::string> problems;
  std::vector<std::string> errors;                 // of workers that ended with one
  int early = 0;                                   // backward passes that saw sums begin before they were over
};

Outcome train(const Trial& t) {
  const auto n = static_cast<std::size_t>(t.workers);
  fake::Machine machine(t.workers, t.seed, t.faults);
  LocalCluster cluster(t.workers);
  Outcome out{.x = std::vector<std::vector<float>>(n), .stats = std::vector<MethodStats>(n), .problems = {},
              .errors = std::vector<std::string>(n), .early = 0};
  std::atomic<int> early = 0;
  {
    const Devices devices(machine, t.workers);
    on_workers(cluster, t.workers, [&](int rank, Group& group) {
      Net net(rank);
      auto optimizer = nn::make_optimizer(t.optimizer, *net.params, {.weight_decay = .01});
      std::atomic<int> added = 0;
      MethodOptions options = options_of("", t.workers, t.steps);
      options.bucket_bytes = kBucket;
      options.clip_norm = t.clip;
      options.reducer = [&](Group& g, std::size_t buckets) -> std::unique_ptr<Reducer> {
        EXPECT_EQ(buckets, static_cast<std::size_t>(kBuckets));
        return std::make_unique<Counted>(reducer_of(t.way, g, machine, buckets), added);
      };
      auto method = make_method("allreduce", *net.params, *optimizer, group, make_graph("complete", t.workers), options);
      const auto victim = t.dies.find(rank);
      const auto dies = [&](int step, When when) {
        if (victim == t.dies.end() || victim->second != std::pair(step, when)) return;
        machine.kill(rank);
        cluster.kill(rank);
        fail<Error>("killed");
      };
      try {
        for (int step = 0; step < t.steps; ++step) {
          dies(step, When::forward);
          int before = 0;
          const Tensor loss = net.loss([&] {
            if (t.prepared && step > 0 && t.dies.empty() && t.faults.failing < 0) {
              EXPECT_TRUE(soon([&] { return added - before >= kLayers / 2; })) << "no sums under backward in step " << step;
              EXPECT_EQ(added - before, kLayers / 2) << "a bucket without its gradients was summed";
              ++early;
            }
            if (rank == t.late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
            dies(step, When::halfway);
          });
          net.params->zero_grad();
          before = added;
          if (t.prepared) method->prepare(.05);
          loss.backward();
          std::optional<Reaper> reaper;
          if (victim != t.dies.end() && victim->second == std::pair(step, When::in_step)) reaper.emplace(machine, cluster, rank, 100 * t.seed);
          method->step(.05);
          if (reaper) fail<Error>("killed");
          dies(step, When::after_step);
        }
        out.x[static_cast<std::size_t>(rank)] = copy(net.params->values());
        method->finish();
      } catch (const std::exception& e) {
        out.errors[static_cast<std::size_t>(rank)] = e.what();
        if (t.faults.failing < 0) throw;
        machine.kill(rank);                        // its process ends
        cluster.kill(rank);
        return;
      }
      EXPECT_LE(machine.live_communicators(rank), 1);
      out.stats[static_cast<std::size_t>(rank)] = method->stats();
    });
  }
  out.early = early;
  out.problems = machine.problems();
  return out;
}

void expect_one_model(const Outcome& out, const Trial& t) {
  EXPECT_THAT(out.problems, testing::IsEmpty());
  const std::vector<float>* first = nullptr;
  for (int rank = 0; rank < t.workers; ++rank) {
    if (t.dies.contains(rank)) continue;
    const auto& x = out.x[static_cast<std::size_t>(rank)];
    ASSERT_FALSE(x.empty()) << "worker " << rank << ": " << out.errors[static_cast<std::size_t>(rank)];
    if (!first) first = &x;
    EXPECT_EQ(x, *first) << "worker " << rank;
    const MethodStats& stats = out.stats[static_cast<std::size_t>(rank)];
    EXPECT_NEAR(stats.consensus_distance, 0, 1e-5);
    EXPECT_EQ(stats.alive, t.workers - static_cast<int>(t.dies.size()));
    EXPECT_GE(stats.gradients, t.steps - static_cast<int>(t.dies.size()));
    EXPECT_LE(stats.gradients, t.steps);
  }
}

class AllReduceWays : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, AllReduceWays, testing::Values(Way::host, Way::staged, Way::nccl), [](const auto& test) {
  return std::string(test.param == Way::host ? "host" : test.param == Way::staged ? "staged" : "nccl");
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
    EXPECT_EQ(pieces.early, trial.workers * (trial.steps - 1)) << "the first step alone is summed when it is over";
  }
}

TEST_P(AllReduceWays, ClipsTheMeanOfTheGradients) {
  const Trial trial{.way = GetParam(), .clip = .01}, plain{.way = Way::host, .prepared = false, .clip = .01};
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
          SCOPED_TRACE("prepared " + std::to_string(prepared) + ", phase " + std::to_string(static_cast<int>(when)) + ", step " +
                       std::to_string(step) + (notices ? ", noticed" : ""));
          Trial trial{.way = GetParam(), .steps = 9, .prepared = prepared, .faults = {.notices = notices}, .dies = {{step % 4, {step, when}}}};
          expect_one_model(train(trial), trial);
        }
}

TEST_P(AllReduceWays, TwoDeathsAtOnceAndOneAfterTheOther) {
  for (const auto& dies :
       std::vector<std::map<int, std::pair<int, When>>>{{{0, {4, When::halfway}}, {2, {4, When::halfway}}},
                                                        {{1, {4, When::halfway}}, {3, {4, When::in_step}}},
                                                        {{0, {3, When::in_step}}, {1, {4, When::forward}}},
                                                        {{0, {2, When::halfway}}, {1, {4, When::after_step}}, {3, {6, When::in_step}}}})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Trial trial{.way = GetParam(), .steps = 9, .faults = {.notices = seed % 2 == 0}, .dies = dies, .seed = seed};
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
      on_workers(cluster, n, [&](int rank, Group& group) {
        std::vector<NamedTensor> all;
        for (int i = 0; i < 3; ++i) all.push_back({std::to_string(i), Tensor::zeros({64})});
        FlatParams params(all);
        nn::Sgd sgd(params, {.momentum = 0});
        params.zero_grad();
        params.settle_grads();
        MethodOptions options = options_of("", n, steps);
        options.bucket_bytes = 256;
        options.reducer = [&](Group& g, std::size_t buckets) { return reducer_of(GetParam(), g, machine, buckets); };
        auto method = make_method("allreduce", params, sgd, group, make_graph("complete", n), options);
        for (int step = 0; step < steps; ++step) {
          Tensor(params.grads()).fill(static_cast<float>(1 << rank));
          method->prepare(1);
          std::optional<Reaper> reaper;
          if (rank == victim && step == at) reaper.emplace(machine, cluster, rank, 150 * (seed - 1));      // somewhere in what follows
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
    for (const int whole : {at - 1, at, at + 1}) possible.push_back(whole * all + (steps - whole) * left);
    EXPECT_THAT(possible, testing::Contains(testing::DoubleNear(static_cast<double>(moved[0]), 1e-3))) << "seed " << seed;
    for (const int rank : {1, 3}) EXPECT_EQ(moved[static_cast<std::size_t>(rank)], moved[0]);
  }
}

// --- backward as a recorded graph ---------------------------------------------------------------------------------------------------------
// A pass whose gradients the compute lane writes, a bucket after the other, each step and worker others. The host only enqueues them.
class LanePass {
 public:
  LanePass(fake::Gpu& gpu, int rank, bool by_step) : gpu_(gpu), rank_(rank), by_step_(by_step) {
    std::vector<NamedTensor> all;
    for (int i = 0; i < 3; ++i) all.push_back({std::to_string(i), at_.emplace_back(Tensor::zeros({kFloats}))});
    params = std::make_unique<FlatParams>(all);
    windows_ = params->windows(params->grads());
  }
  static float value(int step, int bucket, int rank, bool by_step) { return static_cast<float>((1 << rank) * (by_step ? step * 3 + bucket + 1 : 1)); }
  void operator()() {
    params->zero_grad();
    gpu_.run(DevicePort::Lane::compute, [this] { ++step_; });
    for (const int part : {2, 0, 1}) {               // not the order of the block
      gpu_.run(DevicePort::Lane::compute, [this, part] {
        windows_[static_cast<std::size_t>(part)].tensor.fill(value(step_, part, rank_, by_step_));
      });
      Slot& slot = *at_[static_cast<std::size_t>(2 - part)].slot();      // the block begins with what was registered last
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
  int step_ = -1;                                    // on the device
};

struct Launched {
  std::vector<std::vector<float>> x;
  std::vector<std::string> problems;
};
// Some steps as launches of a graph, the others as they stand (all of them: never).
Launched train_launched(Way way, int n, int steps, bool never, std::uint64_t seed, bool by_step, int victim = -1, int dies_at = -1) {
  fake::Machine machine(n, seed, {.notices = seed % 2 == 0});
  LocalCluster cluster(n);
  Launched out{.x = std::vector<std::vector<float>>(static_cast<std::size_t>(n)), .problems = {}};
  {
    const Devices devices(machine, n);
    on_workers(cluster, n, [&](int rank, Group& group) {
      fake::Gpu& gpu = machine.gpu(rank);
      LanePass pass(gpu, rank, by_step);
      nn::Sgd sgd(*pass.params, {.momentum = 0});
      MethodOptions options = options_of("", n, steps);
      options.bucket_bytes = LanePass::kFloats * static_cast<i64>(sizeof(float));
      options.reducer = [&](Group& g, std::size_t buckets) {
        EXPECT_EQ(buckets, 3u);
        return reducer_of(way, g, machine, buckets);
      };
      auto method = make_method("allreduce", *pass.params, sgd, group, make_graph("complete", n), options);
      std::optional<fake::Gpu::Graph> graph;
      std::vector<std::size_t> order;
      for (int step = 0; step < steps; ++step) {
        method->prepare(1);
        if (never || step < 2 || step % 5 == 4) {    // before it is recorded; a smaller batch
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
        if (rank == victim && step == dies_at) reaper.emplace(machine, cluster, rank, 150 * (seed - 1));
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
INSTANTIATE_TEST_SUITE_P(Ways, AllReduceOfGraphs, testing::Values(Way::staged, Way::nccl), [](const auto& test) {
  return std::string(test.param == Way::staged ? "staged" : "nccl");
});

// Of each launch its own gradients: sums wait on the device for the event of their bucket, which every launch marks anew.
TEST_P(AllReduceOfGraphs, SumsWhatEachLaunchHasMade) {
  constexpr int n = 3, steps = 14;
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    for (const bool never : {true, false}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << (never ? ", as they stand" : ", launched"));
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
            ASSERT_NEAR(out.x[static_cast<std::size_t>(rank)][static_cast<std::size_t>(part * LanePass::kFloats + i)], x, 1e-4f * std::abs(x))
                << "worker " << rank << ", part " << part;
      }
    }
}

TEST_P(AllReduceOfGraphs, ADeathIsSurvivedAndSumsAreMadeAgainFromTheSameGradients) {
  constexpr int n = 4, steps = 10, victim = 2;
  for (const int at : {3, 4, 6})                     // launched, as it stands, launched
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", step " << at);
      const Launched out = train_launched(GetParam(), n, steps, false, seed, false, victim, at);
      EXPECT_THAT(out.problems, testing::IsEmpty());
      const double all = (1 + 2 + 4 + 8) / 4.0, left = (1 + 2 + 8) / 3.0;
      std::vector<double> possible;
      for (const int whole : {at - 1, at, at + 1}) possible.push_back(-(whole * all + (steps - whole) * left));
      EXPECT_THAT(possible, testing::Contains(testing::DoubleNear(static_cast<double>(out.x[0][0]), 1e-3)));
      for (const std::size_t rank : {1u, 3u}) EXPECT_EQ(out.x[rank], out.x[0]);
    }
}

// --- NCCL ---------------------------------------------------------------------------------------------------------------------------------
// Two reducers by hand. body(rank, group, gpu, reducer).
void by_hand(fake::Machine& machine, const std::function<void(int, Group&, fake::Gpu&, Reducer&)>& body, Way way = Way::nccl, double abort_s = 30) {
  LocalCluster cluster(2);
  const Devices devices(machine, 2);
  on_workers(cluster, 2, [&](int rank, Group& group) {
    const auto reducer = reducer_of(way, group, machine, 2, abort_s);
    reducer->open(group.collectives(), {0, 1});
    group.collectives().barrier();                           // who aborts at once would keep the other from opening
    body(rank, group, machine.gpu(rank), *reducer);
  });
}

TEST(GpuReducers, SumWhatTheComputeLaneHasWrittenNotWhatWasThereBefore) {
  for (const Way way : {Way::nccl, Way::staged})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      fake::Machine machine(2, seed);
      by_hand(machine, [&](int rank, Group&, fake::Gpu& gpu, Reducer& reducer) {
        const Tensor own = Tensor::full({8}, 100), sum = Tensor::zeros({8});
        for (const std::size_t bucket : {0u, 1u}) {
          gpu.run(DevicePort::Lane::compute,
                  [&, bucket] { own.slice(4 * static_cast<i64>(bucket), 4 * static_cast<i64>(bucket) + 4).fill(1.0f + static_cast<float>(rank)); });
          reducer.mark(bucket);
          reducer.add(bucket, own.slice(4 * static_cast<i64>(bucket), 4 * static_cast<i64>(bucket) + 4),
                      sum.slice(4 * static_cast<i64>(bucket), 4 * static_cast<i64>(bucket) + 4));
        }
        reducer.complete();
        EXPECT_THAT(copy(sum), testing::Each(3)) << "seed " << seed;
      }, way);
      EXPECT_THAT(machine.problems(), testing::IsEmpty());
    }
}

TEST(NcclReducer, OpensOneCommunicatorForAllAndANewOneForThoseWhoAreLeft) {
  fake::Machine machine(2, 1);
  by_hand(machine, [&](int rank, Group& group, fake::Gpu&, Reducer& reducer) {
    EXPECT_EQ(machine.live_communicators(rank), 1);
    reducer.open(group.collectives(), {0, 1});
    EXPECT_EQ(machine.live_communicators(rank), 1);
    group.collectives().barrier();
    reducer.open(group.collectives(), {rank});               // alone: a copy
    EXPECT_EQ(machine.live_communicators(rank), 0);
    const Tensor own = Tensor::full({4}, 7), sum = Tensor::zeros({4});
    reducer.mark(0);
    reducer.add(0, own, sum);
    reducer.complete();
    EXPECT_THAT(copy(sum), testing::Each(7));
  });
  for (const auto& launch : machine.take_launches()) EXPECT_EQ(launch.name, "all-reduce");
  EXPECT_THAT(machine.problems(), testing::IsEmpty());
}

TEST(NcclReducer, AFailureOfTheTransportIsAnErrorAndTheDeviceLetsGo) {
  for (const fake::Faults& faults : {fake::Faults{.transfer_fails = 1}, fake::Faults{.id_fails = 1}, fake::Faults{.init_fails = 1}}) {
    fake::Machine machine(2, 1, faults);
    std::atomic<int> errors = 0;
    LocalCluster cluster(2);
    const Devices devices(machine, 2);
    const std::string error = error_of([&] {
      on_workers(cluster, 2, [&](int rank, Group& group) {
        const auto reducer = reducer_of(Way::nccl, group, machine, 1);
        const Tensor own = Tensor::zeros({4}), sum = Tensor::zeros({4});
        try {
          reducer->open(group.collectives(), {0, 1});
          reducer->mark(0);
          reducer->add(0, own, sum);
          reducer->complete();
        } catch (const DistError&) {
          ++errors;
          reducer->give_up();
          EXPECT_EQ(machine.live_communicators(rank), 0);
          throw;
        }
      });
    });
    EXPECT_THAT(error, testing::ContainsRegex("NCCL|ncclGetUniqueId|is gone|died"));
    EXPECT_GE(errors, 1);
    EXPECT_THAT(machine.problems(), testing::IsEmpty());
  }
}

TEST(NcclReducer, ACommunicatorThatNeverLetsGoIsSaidAndNoneFollows) {
  fake::Machine machine(2, 1, {.abort_hangs = true});
  by_hand(machine, [&](int, Group& group, fake::Gpu&, Reducer& reducer) {
    for (int i = 0; i < 2; ++i)
      EXPECT_THAT(error_of([&] { reducer.open(group.collectives(), {0, 1}); }), testing::HasSubstr("never let go of the GPU"));
  }, Way::nccl, .05);
}

TEST(NcclReducer, AnInterruptEndsAWaitForOthers) {
  fake::Machine machine(2, 1);
  by_hand(machine, [&](int rank, Group& group, fake::Gpu&, Reducer& reducer) {
    const Tensor own = Tensor::zeros({4}), sum = Tensor::zeros({4});
    if (rank == 0) {
      reducer.mark(0);
      reducer.add(0, own, sum);                              // the other's kernel never comes
      std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        reducer.interrupt();
      });
      EXPECT_THAT(error_of([&] { reducer.complete(); }), testing::HasSubstr("given up"));
      later.join();
      reducer.give_up();
      EXPECT_EQ(machine.live_communicators(0), 0);
    }
    group.collectives().barrier();
  });
}

// As for any collective: who sees it waits a while for the death behind it, and then gives up. That is the death the others wait for, or they have
// given up before.
TEST(NcclReducer, AFailureWithoutADeathEndsItsWorkerAndLeavesNobodyHangingOrDifferent) {
  const Trial trial{.workers = 3, .steps = 6, .faults = {.failing = 1, .failing_transfer = 12}};
  const Outcome out = train(trial);
  EXPECT_THAT(out.problems, testing::IsEmpty());
  EXPECT_THAT(out.errors, testing::Contains(testing::HasSubstr("NCCL: ")));
  const std::vector<float>* first = nullptr;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_NE(out.stats[rank].gradients == 0, out.errors[rank].empty()) << "either an error or the end";
    if (!out.errors[rank].empty()) continue;
    if (first) EXPECT_EQ(out.x[rank], *first);
    first = &out.x[rank];
  }
}

TEST(AllReduce, PrepareMayComeTwiceButNotAfterSumsHaveBegun) {
  LocalCluster cluster(2);
  on_workers(cluster, 2, [&](int, Group& group) {
    Net net(0);
    auto optimizer = nn::make_optimizer("sgd", *net.params);
    auto method = make_method("allreduce", *net.params, *optimizer, group, make_graph("ring", 2), options_of("", 2, 3));
    net.params->zero_grad();
    net.loss([] {}).backward();
    method->prepare(.1);                                     // after backward: everything is summed in step()
    method->step(.1);
    method->prepare(.1);
    method->prepare(.1);
    net.params->zero_grad();
    net.loss([] {}).backward();
    EXPECT_THROW(method->prepare(.1), Error);
    method->step(.1);
    method->finish();
  });
}

}  // namespace
}  // namespace gossamer::dist
