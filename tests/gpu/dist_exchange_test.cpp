// Workers that exchange between real GPUs, several of them on one. Each worker is a process of its
// own (workers.h). tests/gpu/many_workers starts the same from a shell.
#include <csignal>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

#include "dist/over.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/control_options.h"
#include "gossamer/dist/gpu/group.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/dist/time.h"
#include "gossamer/nn/optim.h"
#include "gpu/workers.h"

namespace gossamer::dist {
namespace {

using testing::run_workers, testing::variable;

// |x - rank|^2 / 2 on a GPU.
struct GpuQuadratic {
  GpuQuadratic(Device device, int rank, i64 size)
      : x(Tensor::full({size}, static_cast<float>(rank), DType::f32, device)),
        params({{"x", x}}, {}, {.compute = DType::f32, .separate = true}),
        sgd(params),
        target(Tensor::full({params.size()}, static_cast<float>(rank), DType::f32, device)) {
    params.settle_grads();
  }
  void gradient() {
    Tensor g = params.grads();
    g.copy_from(params.compute_f32());
    axpy(g, -1, target);
  }
  Tensor x;
  FlatParams params;
  nn::Sgd sgd;
  Tensor target;
};

// kill -9 in the middle of an exchange: `lives` (GPU_LIVES) exchanges are lived through, the next
// begins at once (the rate is high), and some part of the time that one takes goes by.
class Death {
 public:
  Death(int lives, double part) : lives_(lives), part_(part) {}
  void exchanged(const ExchangeRecord& e) {
    if (++seen_ != lives_) return;
    std::thread([after = part_ * e.seconds] {
      std::this_thread::sleep_for(std::chrono::duration<double>(after));
      std::raise(SIGKILL);
    }).detach();
  }

 private:
  int lives_, seen_ = 0;
  double part_;
};

void run(Group& host, const std::string& transport, const std::string& wire, i64 size, double steps,
         double learning_rate, int dies) {
  // cpu: to try the processes without a GPU
  const Device gpu = variable("GPU_DEVICE", "cuda") == "cpu" ? Device::cpu() : Device::cuda(0);
  const std::unique_ptr<Group> on_gpu =
      gpu.is_cpu()
          ? nullptr
          : gpu_group(host, gpu,
                      {.transport = transport, .nccl_ctas = 2, .log = [&](const std::string& line) {
                         std::fprintf(stderr, "worker %d: %s\n", host.rank(), line.c_str());
                       }});
  Group& group = gpu.is_cpu() ? host : *on_gpu;
  GpuQuadratic q(gpu, group.rank(), size);
  MethodOptions options;
  if (!gpu.is_cpu() && wire == "f16") options.wire = DType::f16;
  options.total_samples = steps * group.size();
  options.seed = 3;
  options.exchange_least_s = 10;  // processes take turns on one GPU
  Death death(std::stoi(variable("GPU_LIVES", "5")), std::stod(variable("GPU_DIES_AFTER", "0.5")));
  if (dies >= 0) options.rate = 4;  // so that an exchange is always under way
  if (group.rank() == dies)
    options.on_exchange = [&](const ExchangeRecord& e) { death.exchanged(e); };
  auto method =
      make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", group.size()), options);
  const double began = wall_seconds();
  while (!method->done()) {
    q.gradient();
    method->step(learning_rate);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  method->finish();
  const MethodStats stats = method->stats();
  std::fprintf(stderr,
               "worker %d: %lld gradients, %lld exchanges, %lld failed, %.3f ms an exchange, %.3f "
               "s, waited %.3f s\n",
               group.rank(), static_cast<long long>(stats.gradients),
               static_cast<long long>(stats.exchanges), static_cast<long long>(stats.failed),
               1e3 * stats.transfer_s /
                   static_cast<double>(std::max<i64>(1, stats.exchanges + stats.failed)),
               wall_seconds() - began, stats.exposed_s);
  EXPECT_GT(stats.exchanges, 0);
  const Tensor x = q.params.values().to(Device::cpu());
  const double mean = (group.size() - 1) / 2.0;
  if (learning_rate == 0)
    EXPECT_NEAR(x.span<float>()[0], mean, 1e-3);  // all began there, and exchanges keep it
  EXPECT_TRUE(std::isfinite(x.span<float>()[0]));
}

// Two buckets for each of so many parts.
double bucket_mb(i64 size, int parts) {
  const i64 bytes = size / parts * static_cast<i64>(sizeof(float)) / 2;
  return static_cast<double>(bytes) / (1 << 20);
}

// Gradients of a real backward pass, summed under it, against the sum of the host: after every
// step, until a worker dies. On a GPU most of the passes are launches of a graph.
void run_all_reduce(Group& host, const std::string& transport, i64 size, int steps, int dies) {
  constexpr int kParts = 6;
  const Device gpu = variable("GPU_DEVICE", "cuda") == "cpu" ? Device::cpu() : Device::cuda(0);
  const char* hostid = std::getenv("NCCL_HOSTID");
  const std::unique_ptr<Group> on_gpu =
      gpu.is_cpu()
          ? nullptr
          : gpu_group(host, gpu,
                      {.traffic = GpuTraffic::all_reduce,
                       .transport = transport,
                       .nccl_hostid = hostid ? hostid : "",
                       .nccl_ctas = 2,
                       .log = [&](const std::string& line) {
                         std::fprintf(stderr, "worker %d: %s\n", host.rank(), line.c_str());
                       }});
  Group& group = gpu.is_cpu() ? host : *on_gpu;
  std::vector<Tensor> parts, factors;
  std::vector<NamedTensor> named;
  for (int i = 0; i < kParts; ++i) {
    parts.push_back(Tensor::zeros({size / kParts / 32, 32}, DType::f32, gpu));
    factors.push_back(Tensor::zeros(parts.back().shape(), DType::f32, gpu));
    named.push_back({"part " + std::to_string(i), parts.back()});
  }
  FlatParams params(named);
  nn::Sgd sgd(params, {.momentum = 0});
  MethodOptions options;
  options.settings.set("bucket_mb", bucket_mb(size, kParts));
  auto method =
      make_method("allreduce", params, sgd, group, make_graph("complete", group.size()), options);
  Rng random(11, static_cast<std::uint64_t>(group.rank()));
  std::vector<float> expected(static_cast<std::size_t>(params.size()), 0.0f);
  const auto pass = [&] {
    Tensor loss;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Tensor term = mean(parts[i] * factors[i]);
      loss = loss.defined() ? loss + term : term;
    }
    params.zero_grad();
    loss.backward();
  };
  cuda::Graph graph;
  std::vector<std::size_t> order;
  bool whole = true;
  const double began = wall_seconds();
  for (int step = 0; step < steps; ++step) {
    for (Tensor& factor : factors) {
      const Tensor c = Tensor::empty(factor.shape());
      for (float& v : c.span<float>()) v = static_cast<float>(c.numel()) * random.normal();
      factor.copy_from(c);
    }
    method->prepare(1);
    if (gpu.is_cpu() || step < 3 || step % 5 == 4) {
      pass();
    } else {
      if (!graph.defined())
        order = params.record_ready([&] { graph = cuda::Graph::capture(gpu, pass); });
      graph.launch(cuda::current_stream(gpu));
      params.replay_ready(order);
    }
    std::vector<float> sum;
    {
      const Tensor own = params.grads().to(Device::cpu());
      sum.assign(own.span<float>().begin(), own.span<float>().end());
    }
    if (group.rank() == dies && step == steps / 2) std::quick_exit(9);
    method->step(1);
    whole = whole && method->stats().alive == group.size() && dies < 0;
    if (!whole) continue;
    group.collectives().all_reduce_sum(over(sum));
    const Tensor now = params.values().to(Device::cpu());
    double worst = 0;
    for (std::size_t k = 0; k < sum.size(); ++k) {
      expected[k] -= sum[k] / static_cast<float>(group.size());
      worst = std::max(worst, static_cast<double>(std::abs(now.span<float>()[k] - expected[k])));
    }
    ASSERT_LT(worst, 1e-4) << "step " << step;
  }
  method->finish();
  const MethodStats stats = method->stats();
  std::fprintf(stderr,
               "worker %d: %lld sums of %lld floats, %.3f s, sums busy %.3f s, waited %.3f s, %d "
               "workers at the end\n",
               group.rank(), static_cast<long long>(stats.gradients),
               static_cast<long long>(params.size()), wall_seconds() - began, stats.transfer_s,
               stats.exposed_s, stats.alive);
  EXPECT_NEAR(stats.consensus_distance, 0, 1e-4);
  EXPECT_EQ(stats.alive, group.size() - (dies >= 0));
}

// Steps of a method that meets in rounds, with gradients of a real backward pass that do not depend
// on the parameters.
struct Mixed {
  std::vector<float> before, after;  // the parameters before finish(), after it
  MethodStats stats;
};
Mixed mix_in_rounds(Group& host, const std::string& name, Device device,
                    const std::string& transport, i64 size, int steps, int dies) {
  const std::unique_ptr<Group> on_gpu =
      device.is_cpu()
          ? nullptr
          : gpu_group(host, device, {.traffic = GpuTraffic::rounds, .transport = transport});
  Group& group = device.is_cpu() ? host : *on_gpu;
  constexpr int kParts = 4;
  std::vector<Tensor> parts;
  std::vector<NamedTensor> named;
  for (int i = 0; i < kParts; ++i) {
    parts.push_back(Tensor::full({size / kParts / 32, 32}, static_cast<float>(group.rank()),
                                 DType::f32, device));
    named.push_back({"part " + std::to_string(i), parts.back()});
  }
  FlatParams params(named);
  nn::Sgd sgd(params, {.momentum = .5f});
  MethodOptions options;
  options.total_samples = 1.0 * steps * group.size();
  options.rounds = name == "sgp" ? "one-peer-exp-directed" : "ring";
  options.settings.set("bucket_mb", bucket_mb(size, kParts));
  options.settings.set("period", 3);
  options.settings.set_all(ConsensusControlOptions{.target = "online", .factor = .5, .most = 2});
  options.settings = options.settings.only(method_settings(name));
  auto method = make_method(name, params, sgd, group, make_graph("ring", group.size()), options);
  Rng random(11, static_cast<std::uint64_t>(group.rank()));
  const auto values = [&] {
    const Tensor x = params.values().to(Device::cpu());
    return std::vector<float>(x.span<float>().begin(), x.span<float>().end());
  };
  for (int step = 0; !method->done(); ++step) {
    Tensor loss;
    for (const Tensor& x : parts) {
      const Tensor c = Tensor::empty(x.shape());
      for (float& v : c.span<float>()) v = static_cast<float>(x.numel()) * random.normal();
      const Tensor term = mean(x * c.to(device));
      loss = loss.defined() ? loss + term : term;
    }
    params.zero_grad();
    method->prepare(.01);
    params.backward(loss);
    if (group.rank() == dies && step == steps / 2) std::quick_exit(9);
    method->step(.01);
  }
  Mixed out;
  out.before = values();
  out.stats = method->stats();
  method->finish();
  out.after = values();
  out.stats.alive = method->stats().alive;
  return out;
}

// The same steps by threads of this process, on the CPU.
Mixed mixed_on_a_cpu(int n, int rank, const std::string& name, i64 size, int steps) {
  LocalCluster cluster(n);
  Mixed mine;
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      try {
        Mixed m = mix_in_rounds(cluster.group(r), name, Device::cpu(), "host", size, steps, -1);
        if (r == rank) mine = std::move(m);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
        cluster.kill(r);
      }
    });
  for (std::thread& t : threads) t.join();
  return mine;
}

void run_rounds(Group& group, const std::string& name, const std::string& transport, i64 size,
                int steps, int dies) {
  const Device gpu = variable("GPU_DEVICE", "cuda") == "cpu" ? Device::cpu() : Device::cuda(0);
  const double began = wall_seconds();
  const Mixed got = mix_in_rounds(group, name, gpu, transport, size, steps, dies);
  std::fprintf(stderr,
               "worker %d: %s, %lld steps of %lld floats, %lld exchanges, %lld failed, %.3f s, "
               "waited %.3f s\n",
               group.rank(), name.c_str(), static_cast<long long>(got.stats.gradients),
               static_cast<long long>(size), static_cast<long long>(got.stats.exchanges),
               static_cast<long long>(got.stats.failed), wall_seconds() - began,
               got.stats.exposed_s);
  EXPECT_EQ(got.stats.alive, group.size() - (dies >= 0));
  for (const float v : got.after) ASSERT_TRUE(std::isfinite(v));
  if (dies >= 0) return;
  EXPECT_EQ(got.stats.failed, 0);
  const Mixed want = mixed_on_a_cpu(group.size(), group.rank(), name, size, steps);
  ASSERT_EQ(got.before.size(), want.before.size());
  EXPECT_EQ(got.stats.exchanges, want.stats.exchanges);
  double worst = 0, drift = 0;
  for (std::size_t k = 0; k < want.before.size(); ++k) {
    const auto apart = [](float a, float b) {
      return std::abs(static_cast<double>(a) - static_cast<double>(b));
    };
    worst =
        std::max({worst, apart(got.before[k], want.before[k]), apart(got.after[k], want.after[k])});
    drift = std::max(drift, apart(want.before[k], want.after[k]));
  }
  EXPECT_LT(worst, 1e-4);
  EXPECT_GT(drift, 1e-3) << "workers that are alike show nothing";
}

// One worker; started by the tests below and by tests/gpu/many_workers.
TEST(GpuDistWorker, DISABLED_Trains) {
  const LaunchInfo place = launch_info();
  const auto group = join(place);
  if (variable("GPU_METHOD", "a2cid2") == "allreduce")
    return run_all_reduce(*group, variable("GPU_TRANSPORT", "auto"),
                          std::stoll(variable("GPU_SIZE", "1048576")), 20,
                          std::stoi(variable("GPU_DIES", "-1")));
  if (const std::string method = variable("GPU_METHOD", "a2cid2"); method != "a2cid2")
    return run_rounds(*group, method, variable("GPU_TRANSPORT", "auto"),
                      std::stoll(variable("GPU_SIZE", "65536")), 20,
                      std::stoi(variable("GPU_DIES", "-1")));
  run(*group, variable("GPU_TRANSPORT", "auto"), variable("GPU_WIRE", "f32"),
      std::stoll(variable("GPU_SIZE", "1048576")), std::stod(variable("GPU_STEPS", "200")),
      std::stod(variable("GPU_RATE", "0")), std::stoi(variable("GPU_DIES", "-1")));
}

// Worker 1 is to die in that part of an exchange; the others then train on for a while without it.
std::vector<std::string> dying(const std::string& part) {
  return {"GPU_DIES=1", "GPU_RATE=0.05", "GPU_DIES_AFTER=" + part, "GPU_STEPS=60",
          "GPU_SIZE=262144"};
}

class GpuWorkers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  }
  static std::vector<int> start(int n, const std::string& transport,
                                std::vector<std::string> more = {}) {
    more.push_back("GPU_TRANSPORT=" + transport);
    return run_workers(n, "GpuDistWorker.DISABLED_Trains", more);
  }
};

// Those that load all of NCCL, which takes its time.
class GpuWorkersNccl : public GpuWorkers {
 protected:
  static std::vector<int> start(int n, const std::string& transport,
                                std::vector<std::string> more = {}) {
    more.emplace_back(
        "CUDA_MODULE_LOADING=EAGER");  // a kernel that is loaded late waits for NCCL's to end
    return GpuWorkers::start(n, transport, more);
  }
};

// Without a GPU the processes themselves must work: a mistake in them would show only there.
TEST(GpuWorkersOnACpu, KeepTheirMeanAndSurviveADeath) {
  EXPECT_EQ(run_workers(2, "GpuDistWorker.DISABLED_Trains", {"GPU_DEVICE=cpu"}),
            (std::vector<int>{0, 0}));
  std::vector<std::string> death = dying("0.5");
  death.emplace_back("GPU_DEVICE=cpu");
  EXPECT_EQ(run_workers(3, "GpuDistWorker.DISABLED_Trains", death),
            (std::vector<int>{0, 128 + SIGKILL, 0}));
}

TEST(GpuWorkersOnACpu, SumGradientsAndSurviveADeath) {
  EXPECT_EQ(
      run_workers(2, "GpuDistWorker.DISABLED_Trains", {"GPU_DEVICE=cpu", "GPU_METHOD=allreduce"}),
      (std::vector<int>{0, 0}));
  EXPECT_EQ(run_workers(3, "GpuDistWorker.DISABLED_Trains",
                        {"GPU_DEVICE=cpu", "GPU_METHOD=allreduce", "GPU_DIES=1"}),
            (std::vector<int>{0, 9, 0}));
}

TEST(GpuWorkersOnACpu, MeetInRoundsAndSurviveADeath) {
  for (const char* method : {"dpsgd", "sgp", "local-sgd", "consensus-control"})
    EXPECT_EQ(run_workers(3, "GpuDistWorker.DISABLED_Trains",
                          {"GPU_DEVICE=cpu", std::string("GPU_METHOD=") + method}),
              std::vector<int>(3, 0))
        << method;
  EXPECT_EQ(run_workers(3, "GpuDistWorker.DISABLED_Trains",
                        {"GPU_DEVICE=cpu", "GPU_METHOD=dpsgd", "GPU_DIES=1"}),
            (std::vector<int>{0, 9, 0}));
}

TEST_F(GpuWorkers, TwoKeepTheirMeanByPeerCopies) {
  EXPECT_EQ(start(2, "peercopy"), (std::vector<int>{0, 0}));
}
TEST_F(GpuWorkers, FourKeepTheirMeanByPeerCopies) {
  EXPECT_EQ(start(4, "peercopy"), (std::vector<int>{0, 0, 0, 0}));
}
TEST_F(GpuWorkers, AWorkerKilledInMidExchangeIsSurvivedByPeerCopies) {
  for (const char* part : {"0.3", "0.9"})
    EXPECT_EQ(start(3, "peercopy", dying(part)), (std::vector<int>{0, 128 + SIGKILL, 0})) << part;
}
TEST_F(GpuWorkers, FourKeepTheirMeanByPeerCopiesInHalfPrecision) {
  EXPECT_EQ(start(4, "peercopy", {"GPU_WIRE=f16"}), (std::vector<int>{0, 0, 0, 0}));
}
TEST_F(GpuWorkers, TwoKeepTheirMeanOverTheHost) {
  EXPECT_EQ(start(2, "host"), (std::vector<int>{0, 0}));
}
TEST_F(GpuWorkers, TwoSumGradientsOverTheHost) {
  EXPECT_EQ(start(2, "host", {"GPU_METHOD=allreduce"}), (std::vector<int>{0, 0}));
}
TEST_F(GpuWorkers, ADeathBetweenSumsIsSurvivedOverTheHost) {
  EXPECT_EQ(start(3, "host", {"GPU_METHOD=allreduce", "GPU_DIES=1"}), (std::vector<int>{0, 9, 0}));
}
TEST_F(GpuWorkers, ThreeMeetInRoundsAsOnACpu) {
  for (const char* method : {"dpsgd", "sgp", "local-sgd", "consensus-control"})
    EXPECT_EQ(start(3, "auto", {std::string("GPU_METHOD=") + method}), (std::vector<int>{0, 0, 0}))
        << method;
}
TEST_F(GpuWorkers, ADeathBetweenRoundsIsSurvived) {
  EXPECT_EQ(start(3, "host", {"GPU_METHOD=dpsgd", "GPU_DIES=1"}), (std::vector<int>{0, 9, 0}));
}

TEST_F(GpuWorkersNccl, TwoKeepTheirMean) {
  EXPECT_EQ(start(2, "nccl", {"GPU_STEPS=100"}), (std::vector<int>{0, 0}));
}
TEST_F(GpuWorkersNccl, TwoAndFourSumGradients) {
  for (const int n : {2, 4})
    EXPECT_EQ(start(n, "nccl", {"GPU_METHOD=allreduce"}),
              std::vector<int>(static_cast<std::size_t>(n), 0))
        << n;
}
TEST_F(GpuWorkersNccl, TwoMeasureAndChoose) {
  EXPECT_EQ(start(2, "auto"), (std::vector<int>{0, 0}));
}
TEST_F(GpuWorkersNccl, ADeathBetweenSumsIsSurvived) {
  EXPECT_EQ(start(3, "nccl", {"GPU_METHOD=allreduce", "GPU_DIES=1"}), (std::vector<int>{0, 9, 0}));
}
// An exchange over sockets takes half a second: an early death, and more steps.
TEST_F(GpuWorkersNccl, AWorkerKilledInMidExchangeIsSurvived) {
  for (const char* part : {"0.3", "0.9"}) {
    std::vector<std::string> death = dying(part);
    death.insert(death.end(), {"GPU_LIVES=1", "GPU_STEPS=300"});
    EXPECT_EQ(start(3, "nccl", death), (std::vector<int>{0, 128 + SIGKILL, 0})) << part;
  }
}
// Many contexts take turns, and NCCL's data goes by sockets here: less of it.
TEST_F(GpuWorkersNccl, FourKeepTheirMean) {
  EXPECT_EQ(start(4, "nccl", {"GPU_STEPS=50", "GPU_SIZE=262144"}), (std::vector<int>{0, 0, 0, 0}));
}

// Threads of one process have no letters and no handles: over the host, between buffers of the GPU.
TEST_F(GpuWorkers, ThreadsOfOneProcessExchange) {
  LocalCluster cluster(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      try {
        run(cluster.group(rank), "auto", "f32", 1 << 16, 100, 0, -1);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
        cluster.kill(rank);
      }
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace gossamer::dist
