// Synchronous methods whose pieces travel between fake GPUs: the bits of the same run between CPUs,
// on streams that run in any order their events allow; beside the computation; through deaths, late
// devices and broken ones.
#include <algorithm>
#include <optional>

#include <gmock/gmock.h>

#include "dist/around.h"
#include "dist/gpu/devices.h"
#include "dist/rounds/synchronous.h"
#include "dist/small_net.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/ops.h"
#include "gossamer/dist/control_options.h"
#include "gossamer/dist/gpu/device_group.h"
#include "gossamer/dist/gpu/group.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/rounds/round_exchange.h"
#include "gossamer/dist/time.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

// Its tensors lie on this device, and go over the host behind its compute stream.
DeviceGroup staged(Group& host, DevicePort& port) {
  return DeviceGroup({.host = host, .port = port, .stream = DevicePort::Stream::compute});
}

bool soon(const std::function<bool()>& test) {
  for (const double limit = wall_seconds() + 20; !test();
       std::this_thread::sleep_for(std::chrono::microseconds(50)))
    if (wall_seconds() > limit) return false;
  return true;
}

struct Net : SmallNet {
  explicit Net(int rank) : SmallNet(rank, 3, 16) {}
};

struct Trial {
  std::string method, rounds;
  bool overlap = true, prepared = false;
  const char* optimizer = "sgd";
  const char* controlled = "dpsgd";
  double clip = 0;
  int workers = 4, steps = 10;
  // this worker, `dies_after_us` after the beginning of step 4
  int dies = -1;
  std::uint64_t dies_after_us = 0;
  std::uint64_t seed = 1;
};
struct Outcome {
  std::vector<std::vector<float>> trained, x;  // before finish(), after it; empty: it died
  std::vector<i64> exchanges, failed, gossip;
  std::vector<double> distance;
  std::vector<int> alive;
  std::vector<std::string> problems;
};

Outcome train(const Trial& t, bool gpu) {
  const auto n = static_cast<std::size_t>(t.workers);
  fake::Machine machine(t.workers, t.seed);
  LocalCluster cluster(t.workers);
  const std::vector<std::vector<float>> models(n);
  const std::vector<i64> counts(n);
  Outcome out{.trained = models,
              .x = models,
              .exchanges = counts,
              .failed = counts,
              .gossip = counts,
              .distance = std::vector<double>(n),
              .alive = std::vector<int>(n),
              .problems = {}};
  {
    const fake::Devices devices(machine, t.workers);
    on_workers(cluster, t.workers, [&](int rank, Group& host) {
      std::optional<DeviceGroup> device;
      if (gpu)
        device.emplace(DeviceGroup::Parts{
            .host = host, .port = machine.gpu(rank), .stream = DevicePort::Stream::compute});
      Group& group = gpu ? *device : host;
      const auto r = static_cast<std::size_t>(rank);
      Net net(rank);
      auto optimizer =
          nn::make_optimizer(t.optimizer, *net.params, {.weight_decay = .01, .period = 2});
      MethodOptions options = options_of(t.rounds, t.workers, t.steps, t.overlap);
      options.settings.set("bucket_mb", 1200. / (1 << 20));
      options.clip_norm = t.clip;
      options.settings.set("period", 3);
      options.settings.set_all(ConsensusControlOptions{
          .method = t.controlled, .target = "online", .factor = .7, .most = 8});
      options.settings = options.settings.only(method_settings(t.method));
      auto method = make_method(t.method, *net.params, *optimizer, group,
                                make_graph("complete", t.workers), options);
      std::optional<std::thread> reaper;
      const auto reaped = [&] {
        if (reaper && reaper->joinable()) reaper->join();
      };
      try {
        for (int step = 0; !method->done(); ++step) {
          if (rank == t.dies && step == 4)
            reaper.emplace([&, rank] {
              std::this_thread::sleep_for(std::chrono::microseconds(t.dies_after_us));
              machine.kill(rank);
              cluster.kill(rank);
            });
          const Tensor loss = net.loss();
          net.params->zero_grad();
          if (t.prepared) method->prepare(.05);
          net.params->backward(loss);
          method->step(.05);
        }
        if (rank == t.dies) fail<Error>("killed");
        out.trained[r] = copy(net.params->values());
        method->finish();
      } catch (...) {
        reaped();
        throw;
      }
      const MethodStats stats = method->stats();
      out.x[r] = copy(net.params->values());
      out.exchanges[r] = stats.exchanges;
      out.failed[r] = stats.failed;
      out.gossip[r] = stats.control.gossip;
      out.distance[r] = stats.consensus_distance;
      out.alive[r] = stats.alive;
    });
  }
  out.problems = machine.problems();
  return out;
}

void PrintTo(const Trial& t, std::ostream* out) { *out << t.method << " on " << t.rounds; }

std::string name_of_trial(const testing::TestParamInfo<Trial>& test) {
  const Trial& t = test.param;
  std::string name = t.method + "_" + t.rounds + (t.overlap ? "" : "_waits") +
                     (t.prepared ? "_in_pieces" : "") + (t.clip > 0 ? "_clipped" : "") +
                     (t.method == "consensus-control" ? std::string("_") + t.controlled : "");
  std::ranges::replace(name, '-', '_');
  return name;
}

const Trial kTrials[] = {
    {.method = "dpsgd", .rounds = "ring"},
    {.method = "dpsgd", .rounds = "complete", .prepared = true},
    {.method = "dpsgd", .rounds = "ring-matching", .overlap = false},
    {.method = "dpsgd", .rounds = "ring", .prepared = true, .clip = .05},
    {.method = "dadam", .rounds = "ring", .prepared = true, .optimizer = "adam"},
    {.method = "accum-adam",
     .rounds = "ring-matching",
     .prepared = true,
     .optimizer = "accum-adam"},
    {.method = "sgp", .rounds = "one-peer-exp-directed"},
    {.method = "sgp", .rounds = "one-peer-exp-directed", .overlap = false},
    {.method = "sgp", .rounds = "star"},
    {.method = "qg-dsgdm", .rounds = "ring"},
    {.method = "exact-diffusion", .rounds = "ring"},
    {.method = "decentlam", .rounds = "ring"},
    {.method = "relay-sgd", .rounds = "chain"},
    {.method = "clipped-gossip", .rounds = "ring"},
    {.method = "gradient-tracking", .rounds = "ring"},
    {.method = "gradient-tracking", .rounds = "one-peer-exp", .overlap = false},
    {.method = "local-sgd", .rounds = "ring"},
    {.method = "diloco", .rounds = "ring"},
    {.method = "noloco", .rounds = "ring-matching"},
    {.method = "consensus-control", .rounds = "ring"},
    {.method = "consensus-control", .rounds = "ring", .controlled = "sgp"},
    {.method = "consensus-control", .rounds = "ring", .controlled = "local-sgd"}};

// --- the same run

class GpuRounds : public testing::TestWithParam<Trial> {};

TEST_P(GpuRounds, HaveTheBitsOfTheRunBetweenCpus) {
  Trial t = GetParam();
  const Outcome cpu = train(t, false);
  EXPECT_NE(cpu.trained[0], cpu.trained[1]) << "a run in which nothing differs shows nothing";
  if (t.method == "consensus-control") EXPECT_GT(cpu.gossip[0], 0);
  for (t.seed = 1; t.seed <= 3; ++t.seed) {
    const Outcome gpu = train(t, true);
    EXPECT_EQ(gpu.trained, cpu.trained) << t.seed;
    EXPECT_EQ(gpu.x, cpu.x);
    EXPECT_EQ(gpu.exchanges, cpu.exchanges);
    EXPECT_EQ(gpu.failed, std::vector<i64>(cpu.failed.size(), 0));
    EXPECT_EQ(gpu.gossip, cpu.gossip);
    EXPECT_EQ(gpu.distance, cpu.distance);
    EXPECT_THAT(gpu.problems, testing::IsEmpty());
  }
}
INSTANTIATE_TEST_SUITE_P(Methods, GpuRounds, testing::ValuesIn(kTrials), name_of_trial);

// --- deaths

class GpuRoundsDrill : public testing::TestWithParam<Trial> {};

TEST_P(GpuRoundsDrill, ADeathAtAnyMomentIsSurvived) {
  Trial t = GetParam();
  t.dies = 1;
  for (t.seed = 1; t.seed <= 10; ++t.seed) {
    t.dies_after_us = 150 * (t.seed - 1);
    SCOPED_TRACE(t.seed);
    const Outcome out = train(t, true);
    EXPECT_TRUE(out.x[1].empty());
    for (const std::size_t r : {0u, 2u, 3u}) {
      EXPECT_FALSE(out.x[r].empty()) << r;
      EXPECT_EQ(out.x[r], out.x[0]);
      EXPECT_EQ(out.alive[r], 3);
    }
    EXPECT_THAT(out.problems, testing::IsEmpty());
  }
}
INSTANTIATE_TEST_SUITE_P(Methods, GpuRoundsDrill, testing::ValuesIn(kTrials), name_of_trial);

// --- the streams

constexpr i64 kHalf = 37;
constexpr int kWorkers = 3, kSlots = 2, kRounds = 25;

float noise_at(int worker, int round, i64 k) {
  return Rng(11, static_cast<std::uint64_t>(worker * 1000 + round)).normal() +
         static_cast<float>(k);
}

// x_slot <- a third of x_slot and of each of the others' (ascending), then a step of its own.
void mix_and_step(Tensor x, const std::vector<Tensor>& others, int worker, int round) {
  if (!others.empty()) {
    weighted_sum(x, 1 / 3.0f, 1 / 3.0f, others[0]);
    for (std::size_t i = 1; i < others.size(); ++i) axpy(x, 1 / 3.0f, others[i]);
  }
  for (i64 k = 0; k < x.numel(); ++k)
    x.span<float>()[static_cast<std::size_t>(k)] += noise_at(worker, round, k);
}

// Everything that computes is in the compute stream, which falls behind as far as the rounds let
// it.
TEST(Staged, FollowAComputeLaneThatIsFarBehind) {
  std::vector<Tensor> want;
  for (int i = 0; i < kWorkers; ++i) want.push_back(Tensor::zeros({kSlots * kHalf}));
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Tensor> before;
    for (const Tensor& x : want) before.push_back(x.clone());
    for (int i = 0; i < kWorkers; ++i)
      for (int slot = 0; slot < kSlots; ++slot) {
        std::vector<Tensor> others;
        for (int j = 0; j < kWorkers && round > 0; ++j)
          if (j != i)
            others.push_back(
                before[static_cast<std::size_t>(j)].slice(slot * kHalf, (slot + 1) * kHalf));
        mix_and_step(want[static_cast<std::size_t>(i)].slice(slot * kHalf, (slot + 1) * kHalf),
                     others, i, round);
      }
  }
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    fake::Machine machine(kWorkers, seed);
    LocalCluster cluster(kWorkers);
    const fake::Devices devices(machine, kWorkers);
    on_workers(cluster, kWorkers, [&](int rank, Group& host) {
      fake::Gpu& gpu = machine.gpu(rank);
      DeviceGroup group = staged(host, gpu);
      const Tensor x = Tensor::zeros({kSlots * kHalf});
      Round ring{.own = 1 / 3.0, .in = {}, .out = {}};
      for (int j = 0; j < kWorkers; ++j)
        if (j != rank) ring.in.push_back({j, 1 / 3.0}), ring.out.push_back({j, 1 / 3.0});
      RoundExchange exchange(group, kSlots, Seconds(20), {}, [](const Event&) {});
      for (int round = 0; round < kRounds; ++round)
        for (int slot = 0; slot < kSlots; ++slot) {
          std::vector<Tensor> others;
          if (exchange.pending(slot))
            for (const RoundExchange::Part& p : exchange.wait(slot).parts) {
              ASSERT_TRUE(p.ok);
              others.push_back(p.received);
            }
          const Tensor piece = x.slice(slot * kHalf, (slot + 1) * kHalf);
          gpu.run(DevicePort::Stream::compute, [=] { mix_and_step(piece, others, rank, round); });
          exchange.launch(slot, ring, round, static_cast<std::uint64_t>(round * kSlots + slot + 1),
                          piece, {}, [](int) { return false; });
        }
      for (int slot = 0; slot < kSlots; ++slot) exchange.wait(slot);
      const DevicePort::Event end = gpu.make_event();
      gpu.record(end, DevicePort::Stream::compute);
      ASSERT_TRUE(soon([&] { return gpu.done(end); }));
      EXPECT_EQ(copy(x), copy(want[static_cast<std::size_t>(rank)]))
          << "worker " << rank << ", seed " << seed;
      group.collectives().barrier();
    });
    EXPECT_THAT(machine.problems(), testing::IsEmpty());
  }
}

// --- beside the computation

class Watched final : public Around {
 public:
  explicit Watched(Group& inner) : Around(inner) {}
  std::atomic<int> begun = 0;

 private:
  void exchange(int peer, std::uint64_t session, const Tensor& out, const Tensor& in,
                std::span<const char> note, Seconds deadline) override {
    Around::exchange(peer, session, out, in, note, deadline);
    ++begun;
  }
};

// The step returns while the device has done nothing yet; the exchange runs while nobody calls the
// method.
TEST(Staged, NeitherWaitForTheDeviceNorNeedTheTrainingThread) {
  constexpr int n = 3, kSteps = 4;
  fake::Machine machine(n, 1);
  LocalCluster cluster(n);
  fake::Devices devices(machine, n, true);
  on_workers(cluster, n, [&](int rank, Group& inner) {
    Watched host(inner);
    DeviceGroup group = staged(host, machine.gpu(rank));
    Quadratic q(rank, 40);
    MethodOptions options = options_of("ring", n, kSteps);
    auto method = make_method("dpsgd", q.params, q.sgd, group, make_graph("ring", n), options);
    for (int step = 0; !method->done(); ++step) {
      q.gradient();
      method->step(.1);
      if (step == 0) EXPECT_EQ(host.begun, 0) << "sent before the device had written it";
      devices.hold(rank, false);
      EXPECT_TRUE(soon([&] { return host.begun == 2 * (step + 1); }))
          << "nothing was sent after step " << step;
    }
    method->finish();
    EXPECT_EQ(method->stats().failed, 0);
  });
}

// --- trouble

TEST(Staged, ALateDeviceIsLeftOutOfTheRoundAndTakesPartAgain) {
  constexpr int n = 4;
  fake::Machine machine(n, 1);
  LocalCluster cluster(n);
  std::vector<std::vector<float>> x(n);
  std::atomic<i64> failed = 0;
  fake::Devices devices(machine, n);
  on_workers(cluster, n, [&](int rank, Group& host) {
    DeviceGroup group = staged(host, machine.gpu(rank));
    Quadratic q(rank, 20);
    MethodOptions options = options_of("ring", n, 60);
    options.exchange_timeout_s = .15;
    auto method = make_method("dpsgd", q.params, q.sgd, group, make_graph("ring", n), options);
    std::optional<std::thread> later;
    for (int step = 0; !method->done(); ++step) {
      if (rank == 1 && step == 20) {
        devices.hold(1, true);
        later.emplace([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(400));
          devices.hold(1, false);
        });
      }
      q.gradient();
      method->step(.1);
    }
    method->finish();
    if (later) later->join();
    failed += method->stats().failed;
    EXPECT_EQ(method->stats().alive, n);
    x[static_cast<std::size_t>(rank)] = copy(q.params.values());
  });
  EXPECT_GT(failed, 0);
  for (const auto& each : x) {
    EXPECT_EQ(each, x[0]);
    EXPECT_NEAR(static_cast<double>(each[0]), 1.5, .1);
  }
}

// A GPU that fails after so many looks at it, and then does nothing any more.
class Failing final : public DevicePort {
 public:
  Failing(fake::Machine& machine, int rank, int looks)
      : machine_(machine), rank_(rank), inner_(machine.gpu(rank)), looks_(looks) {}
  Event make_event() override { return inner_.make_event(); }
  void record(Event e, Stream stream) override { inner_.record(e, stream); }
  void wait(Stream stream, Event e) override { inner_.wait(stream, e); }
  bool done(Event e) override {
    if (looks_-- > 0) return inner_.done(e);
    machine_.kill(rank_);
    fail<DeviceError>("an illegal memory access was encountered");
  }
  void run(Stream stream, const std::function<void()>& kernels) override {
    inner_.run(stream, kernels);
  }
  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    inner_.copy(stream, to, from, bytes);
  }

 private:
  fake::Machine& machine_;
  const int rank_;
  DevicePort& inner_;
  std::atomic<int> looks_;
};

TEST(Staged, ADeviceThatFailsEndsTheRunOfItsWorkerWithItsWords) {
  constexpr int n = 3;
  fake::Machine machine(n, 1);
  LocalCluster cluster(n);
  std::string error;
  const fake::Devices devices(machine, n);
  on_workers(cluster, n, [&](int rank, Group& host) {
    Failing port(machine, rank, rank == 1 ? 60 : 1 << 30);
    DeviceGroup group = staged(host, port);
    Quadratic q(rank, 20);
    MethodOptions options = options_of("ring", n, 80);
    auto method = make_method("dpsgd", q.params, q.sgd, group, make_graph("ring", n), options);
    try {
      while (!method->done()) {
        q.gradient();
        method->step(.1);
      }
    } catch (const DistError& e) {
      if (rank != 1) throw;
      error = e.what();
      return cluster.kill(rank);
    }
    method->finish();
    EXPECT_NE(rank, 1);
    EXPECT_EQ(method->stats().alive, 2);
  });
  EXPECT_THAT(error, testing::HasSubstr("an illegal memory access"));
}

TEST(GpuOptions, RefuseWhatDoesNotGoWithTheTraffic) {
  const auto refused = [](GpuOptions o, GpuTraffic traffic) {
    o.traffic = traffic;
    return error_of<ConfigError>([&] { check_gpu_options(o); });
  };
  for (const char* transport : {"nccl", "peercopy"})
    EXPECT_THAT(refused({.transport = transport}, GpuTraffic::rounds),
                testing::HasSubstr("over the host: use auto or host"));
  EXPECT_THAT(refused({.transport = "peercopy"}, GpuTraffic::all_reduce),
              testing::HasSubstr("nccl or host"));
  EXPECT_THAT(refused({.transport = "nccl", .deterministic = true}, GpuTraffic::all_reduce),
              testing::HasSubstr("a deterministic run can't use it: use auto or host"));
  EXPECT_THAT(refused({.transport = "pigeon"}, GpuTraffic::gossip),
              testing::HasSubstr("known are"));
  EXPECT_THAT(
      refused({.transport = "nccl", .encrypted = true}, GpuTraffic::gossip),
      testing::AllOf(testing::HasSubstr("WireGuard"), testing::HasSubstr("trust_network=true")));
  check_gpu_options({.transport = "auto", .encrypted = true});
  check_gpu_options({.traffic = GpuTraffic::rounds, .transport = "host"});
  check_gpu_options({.transport = "peercopy", .deterministic = true});  // copies add nothing
}

}  // namespace
}  // namespace gossamer::dist
