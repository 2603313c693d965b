// Workers that exchange between real GPUs, several of them on one. Each worker is a process of its own (this program again), with an NCCL_HOSTID
// of its own, so that NCCL takes them for different machines. tests/gpu/many_workers starts the same from a shell.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "gossamer/core/cuda.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/gossip/clock.h"
#include "gossamer/dist/gpu/gpu_transport.h"
#include "gossamer/dist/launch/launch.h"
#include "gossamer/dist/method.h"
#include "gossamer/nn/optim.h"

extern char** environ;

namespace gossamer::dist {
namespace {

std::string variable(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

// |x - rank|^2 / 2 on a GPU.
struct GpuQuadratic {
  GpuQuadratic(Device device, int rank, i64 size)
      : x(Tensor::full({size}, static_cast<float>(rank), DType::f32, device)), params({{"x", x}}, {}, {.compute = DType::f32, .frozen = true}), sgd(params),
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

void run(Group& group, const std::string& transport, const std::string& wire, i64 size, double steps, double learning_rate, int dies) {
  const Device gpu = variable("GPU_DEVICE", "cuda") == "cpu" ? Device::cpu() : Device::cuda(0);      // cpu: to try the processes without a GPU
  GpuQuadratic q(gpu, group.rank(), size);
  MethodOptions options;
  options.total_samples = steps * group.size();
  options.seed = 3;
  options.exchange_least_s = 10;                 // processes take turns on one GPU
  if (!gpu.is_cpu()) options.carrier = gpu_carriers(gpu, {.transport = transport, .wire = wire, .ctas = 2, .log = [&](const std::string& line) {
                                           std::fprintf(stderr, "worker %d: %s\n", group.rank(), line.c_str());
                                         }});
  auto method = make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", group.size()), options);
  const double began = wall_seconds();
  i64 done = 0;
  while (!method->done()) {
    q.gradient();
    method->step(learning_rate);
    if (group.rank() == dies && ++done == 50) std::quick_exit(9);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  method->finish();
  const MethodStats stats = method->stats();
  std::fprintf(stderr, "worker %d: %lld gradients, %lld exchanges, %lld failed, %.3f ms an exchange, %.3f s, waited %.3f s\n", group.rank(),
               static_cast<long long>(stats.gradients), static_cast<long long>(stats.exchanges), static_cast<long long>(stats.failed),
               1e3 * stats.transfer_s / static_cast<double>(std::max<i64>(1, stats.exchanges + stats.failed)), wall_seconds() - began, stats.exposed_s);
  EXPECT_GT(stats.exchanges, 0);
  const Tensor x = q.params.values().to(Device::cpu());
  const double mean = (group.size() - 1) / 2.0;
  if (learning_rate == 0) EXPECT_NEAR(x.span<float>()[0], mean, 1e-3);      // all began there, and exchanges keep it
  EXPECT_TRUE(std::isfinite(x.span<float>()[0]));
}

// One worker; started by the tests below and by tests/gpu/many_workers.
TEST(GpuDistWorker, DISABLED_Trains) {
  const LaunchInfo place = launch_info();
  const auto group = join(place);
  run(*group, variable("GPU_TRANSPORT", "auto"), variable("GPU_WIRE", "f32"), std::stoll(variable("GPU_SIZE", "1048576")), std::stod(variable("GPU_STEPS", "200")),
      std::stod(variable("GPU_RATE", "0")), std::stoi(variable("GPU_DIES", "-1")));
}

class GpuWorkers : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  }
  // Exit codes, by rank. Those that do not end are killed.
  std::vector<int> start(int n, const std::string& transport, const std::vector<std::string>& more = {}) {
    const std::string port = std::to_string(20000 + (getpid() * 7 + ++runs_ * 131) % 20000);
    std::vector<pid_t> pids;
    for (int rank = 0; rank < n; ++rank) {
      std::vector<std::string> variables;
      for (char** e = environ; *e; ++e) variables.emplace_back(*e);
      const std::string r = std::to_string(rank);
      for (const std::string& v : {"GOSSAMER_RANK=" + r, "GOSSAMER_WORLD=" + std::to_string(n), "GOSSAMER_RENDEZVOUS=127.0.0.1:" + port, "GPU_TRANSPORT=" + transport,
                                   "NCCL_HOSTID=worker-" + r, std::string("NCCL_SOCKET_IFNAME=lo"), std::string("NCCL_IB_DISABLE=1"), std::string("NCCL_NVLS_ENABLE=0"),
                                   std::string("NCCL_RAS_ENABLE=0"), std::string("NCCL_MNNVL_ENABLE=0"), std::string("CUDA_MODULE_LOADING=EAGER")})
        variables.push_back(v);
      variables.insert(variables.end(), more.begin(), more.end());
      std::vector<char*> environment, arguments;
      for (std::string& v : variables) environment.push_back(v.data());
      environment.push_back(nullptr);
      std::string program = "/proc/self/exe", filter = "--gtest_filter=GpuDistWorker.DISABLED_Trains", also = "--gtest_also_run_disabled_tests", brief = "--gtest_brief=1";
      for (std::string* a : {&program, &filter, &also, &brief}) arguments.push_back(a->data());
      arguments.push_back(nullptr);
      pid_t pid = -1;
      EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments.data(), environment.data()), 0);
      pids.push_back(pid);
    }
    std::vector<int> codes(pids.size(), -1);
    const double limit = wall_seconds() + 40;
    for (std::size_t i = 0; i < pids.size(); ++i) {
      int status = 0;
      while (waitpid(pids[i], &status, WNOHANG) == 0) {
        if (wall_seconds() > limit) kill(pids[i], SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      codes[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return codes;
  }
  int runs_ = 0;
};

TEST_F(GpuWorkers, TwoKeepTheirMeanByPeerCopies) { EXPECT_EQ(start(2, "peercopy"), (std::vector<int>{0, 0})); }
TEST_F(GpuWorkers, FourKeepTheirMeanByPeerCopiesInHalfPrecision) { EXPECT_EQ(start(4, "peercopy", {"GPU_WIRE=f16"}), (std::vector<int>{0, 0, 0, 0})); }
TEST_F(GpuWorkers, TwoKeepTheirMeanByNccl) { EXPECT_EQ(start(2, "nccl"), (std::vector<int>{0, 0})); }
TEST_F(GpuWorkers, TwoKeepTheirMeanOverTheHost) { EXPECT_EQ(start(2, "host"), (std::vector<int>{0, 0})); }
TEST_F(GpuWorkers, TwoMeasureAndChoose) { EXPECT_EQ(start(2, "auto"), (std::vector<int>{0, 0})); }
TEST_F(GpuWorkers, AWorkerThatDiesIsSurvived) {
  for (const char* transport : {"peercopy", "nccl"}) EXPECT_EQ(start(3, transport, {"GPU_DIES=1", "GPU_RATE=0.05"}), (std::vector<int>{0, 9, 0})) << transport;
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
