// What gossip costs the computation: a worker that trains ResNet-50 exchanges in every step with an
// idle partner, another process on the same GPU. Steps with and without exchanges alternate in
// blocks, so that clocks and neighbours on the machine are the same for both.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <gtest/gtest.h>

#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/backend_cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/gpu/group.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/dist/time.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/optim.h"
#include "gpu/workers.h"

namespace gossamer::dist {
namespace {

using testing::run_workers, testing::variable;

constexpr double kMostCost = 1.03;
constexpr int kPairs = 7, kSteps = 12;  // blocks of each kind, steps in one

// GPU_DEVICE=cpu: a small model, to try all of it without a GPU
struct Rehearsal {
  bool on = variable("GPU_DEVICE", "cuda") == "cpu";
  Device device = on ? Device::cpu() : Device::cuda(0);
  const char* model = on ? "resnet8-cifar" : "resnet50";
  i64 batch = on ? 8 : std::stoll(variable("GPU_BATCH", "256")), side = on ? 32 : 224;
  DType type = on ? DType::f32 : DType::bf16;
};

void settle(Device device) {
  if (!device.is_cpu()) cuda::current_stream(device).synchronize();
}

// Worker 0 trains; worker 1 computes nothing and takes part in exchanges.
TEST(GpuGossipCostWorker, DISABLED_Trains) {
  const Rehearsal r;
  JoinOptions wait_long;
  wait_long.collective_timeout_s = 100;
  const auto host = join(launch_info(), wait_long);
  const bool busy = host->rank() == 0;
  if (!r.on) configure_cuda({.plan_file = variable("GPU_PLANS", "")});
  const std::string wire = variable("GPU_WIRE", "f32");
  const std::unique_ptr<Group> on_gpu =
      r.on ? nullptr
           : gpu_group(*host, r.device,
                       {.transport = variable("GPU_TRANSPORT", "peercopy"), .wire = wire});
  Group* const group = r.on ? host.get() : on_gpu.get();
  const auto net = models::make(r.model);
  net->to(r.device);
  FlatParams params(net->parameters(), net->buffers(), {.compute = r.type, .frozen = true});
  nn::Sgd sgd(params, {.momentum = 0.9f});
  Tensor images, labels;
  if (busy) {
    Rng rng(3);
    images = Tensor::empty({r.batch, r.side, r.side, 3});
    for (float& v : images.span<float>()) v = rng.normal();
    images = images.to(r.device).to(r.type);
    labels = Tensor::zeros({r.batch}, DType::i32, r.device);
  }
  const auto gradient = [&] {
    params.zero_grad();
    cross_entropy(net->forward(images), labels).backward();
  };
  // Seconds a step. As in the training loop the host is at most one step ahead: else what an
  // exchange enqueues would stand behind all steps, and the time that the method sees between two
  // steps would be that of enqueuing one.
  const auto timed = [&](auto update) {
    settle(r.device);
    const double began = wall_seconds();
    cuda::Event last;
    for (int i = 0; i < kSteps; ++i) {
      gradient();
      update();
      if (r.on) continue;
      const cuda::Event end(r.device);
      end.record(cuda::current_stream(r.device));
      if (last.defined())
        check<DeviceError>(last.wait(std::chrono::seconds(50)), "a step takes more than 50 s");
      last = end;
    }
    settle(r.device);
    return (wall_seconds() - began) / kSteps;
  };
  // plans are measured now, while the partner waits
  if (busy) (void)timed([&] { sgd.step(1e-4f); });

  MethodOptions options;
  options.quota = "exact";
  options.exchange_least_s = 10;
  if (!r.on && wire == "f16") options.wire = DType::f16;
  auto method = make_method("a2cid2", params, sgd, *group, make_graph("ring", 2), options);
  // until the other has measured; whoever asks for an exchange is answered meanwhile
  if (!busy) return group->collectives().barrier();
  (void)timed([&] { method->step(1e-4); });  // the first exchanges connect
  std::vector<double> ratios, with, without;
  const i64 before = method->stats().exchanges;
  for (int k = 0; k < kPairs; ++k) {
    double quiet = 0;
    method->quiesce([&] { quiet = timed([&] { sgd.step(1e-4f); }); });
    const double exchanging = timed([&] { method->step(1e-4); });
    without.push_back(quiet), with.push_back(exchanging), ratios.push_back(exchanging / quiet);
  }
  const MethodStats stats = method->stats();
  const auto median = [](std::vector<double> v) {
    std::ranges::nth_element(v, v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2));
    return v[v.size() / 2];
  };
  const double rate = static_cast<double>(stats.exchanges - before) / (kPairs * kSteps),
               cost = median(ratios);
  std::fprintf(stderr,
               "gossip cost by %s: step %.2f ms, with %.2f exchanges in each %.2f ms: ratio %.4f, "
               "an exchange takes %.2f ms, waited %.3f s\n",
               variable("GPU_TRANSPORT", "peercopy").c_str(), 1e3 * median(without), rate,
               1e3 * median(with), cost,
               1e3 * stats.transfer_s / static_cast<double>(std::max<i64>(1, stats.exchanges)),
               stats.exposed_s);
  EXPECT_GT(rate, 0);
  if (!r.on)
    EXPECT_GE(rate, 0.8)
        << "exchanges a step: the partner was not there often enough to say anything";
  EXPECT_EQ(stats.failed, 0);
  if (!r.on) EXPECT_LE(cost, kMostCost);
  group->collectives().barrier();
}

TEST(GpuGossipCost, AnExchangeInEveryStepCostsAtMostThreePercent) {
  if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  EXPECT_EQ(
      run_workers(2, "GpuGossipCostWorker.DISABLED_Trains", {"GPU_TRANSPORT=peercopy"}, 60)[0], 0);
}

// Without a GPU the roles themselves must work.
TEST(GpuGossipCost, TheRolesRunOnACpu) {
  EXPECT_EQ(run_workers(2, "GpuGossipCostWorker.DISABLED_Trains", {"GPU_DEVICE=cpu"}, 100)[0], 0);
}

}  // namespace
}  // namespace gossamer::dist
