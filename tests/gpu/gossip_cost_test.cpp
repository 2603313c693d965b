// What the device's part of an exchange costs a training step: ResNet-50 trains; in every step its
// snapshot goes to a partner and the partner's snapshot comes back, on streams of their own, and
// the next update takes the difference along. The partner is a thread of this process with its own
// stream: two processes on one GPU would take turns (without MPS), and their turns would be timed
// in place of the work. Blocks of steps with and without exchanges alternate, so that clocks are
// the same for both. Times are those of events. One GPU copies for both sides and has no NVLink, so
// the ratio is reported and not judged.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/backend_cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/exchange.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/core/update.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/optim.h"
#include "gpu/workers.h"

namespace gossamer {
namespace {

using testing::variable;

constexpr int kPairs = 7, kSteps = 12;  // blocks of each kind, steps in one
constexpr auto kLimit = std::chrono::seconds(50);

double median(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::ranges::nth_element(v, middle);
  return *middle;
}

// The other side of the exchanges.
class Partner {
 public:
  Partner(Device device, i64 size)
      : device_(device),
        stream_(device),
        theirs_(Tensor::full({size}, 0.01f, DType::f32, device)),
        taken_(Tensor::empty({size}, DType::f32, device)) {
    cuda::current_stream(device).synchronize();  // `theirs_` is there for every stream
    thread_ = std::thread([this] { serve(); });
  }
  ~Partner() {
    hand(Request{});
    thread_.join();
  }
  // Copies both ways on the partner's stream, after `snapped`; returns when they are enqueued.
  // The event is recorded behind them.
  cuda::Event exchange(const Tensor& own, const Tensor& received, const cuda::Event& snapped) {
    const cuda::Event done(device_, cuda::Event::Timing::on);
    hand({own, received, snapped, done});
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !request_.own.defined(); });
    check<DeviceError>(why_.empty(), "the partner: ", why_);
    return done;
  }

 private:
  struct Request {
    Tensor own, received;  // undefined: the end
    cuda::Event snapped, done;
  };
  void hand(Request request) {
    const std::scoped_lock lock(mutex_);
    request_ = std::move(request);
    ended_ = !request_.own.defined();
    changed_.notify_all();
  }
  void serve() {
    const cuda::UseStream use(stream_);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ended_ || request_.own.defined(); });
      if (ended_) return;
      try {
        stream_.wait(request_.snapped);
        cuda::copy(taken_.data(), request_.own.data(), taken_.bytes(), stream_);
        cuda::copy(request_.received.data(), theirs_.data(), theirs_.bytes(), stream_);
        request_.done.record(stream_);
      } catch (const DeviceError& e) {
        why_ = e.what();
      }
      request_ = {};
      changed_.notify_all();
    }
  }

  Device device_;
  cuda::Stream stream_;
  Tensor theirs_, taken_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Request request_;
  bool ended_ = false;
  std::string why_;
  std::thread thread_;
};

TEST(GpuGossipCost, AnExchangeInEveryStepIsTimed) {
  if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  const Device gpu = Device::cuda(0);
  const i64 batch = std::stoll(variable("GPU_BATCH", "256"));
  configure_cuda({.plan_file = variable("GPU_PLANS", "")});
  const auto net = models::make("resnet50");
  net->to(gpu);
  FlatParams params(net->parameters(), net->buffers(), {.compute = DType::bf16, .separate = true});
  nn::Sgd sgd(params, {.momentum = 0.9f});
  Rng rng(3);
  Tensor images = Tensor::empty({batch, 224, 224, 3});
  for (float& v : images.span<float>()) v = rng.normal();
  images = images.to(gpu).to(DType::bf16);
  const Tensor labels = Tensor::zeros({batch}, DType::i32, gpu);

  const i64 size = params.values().numel();
  const Twin twin{params.values().clone(), 0.9f, 0.1f};
  Tensor own = Tensor::empty({size}, DType::f32, gpu);
  const Tensor received = Tensor::empty({size}, DType::f32, gpu);
  const Difference difference{own, received, 0.5f, 0.5f};
  const cuda::Stream train = cuda::current_stream(gpu), exchange(gpu, cuda::Stream::Priority::high);
  Partner partner(gpu, size);
  using Timing = cuda::Event::Timing;

  std::vector<double> exchange_ms;
  // Milliseconds of one step on the device.
  const auto timed = [&](bool exchanging) {
    std::vector<cuda::Event> ends;
    cuda::Event begun, came;  // of the exchange under way
    const auto mark = [&] {
      ends.emplace_back(gpu, Timing::on);
      ends.back().record(train);
    };
    mark();
    for (int i = 0; i < kSteps; ++i) {
      params.zero_grad();
      cross_entropy(net->forward(images), labels).backward();
      const bool late = came.defined();
      if (late) train.wait(came);
      sgd.step(1e-4f, &twin, {}, late ? &difference : nullptr);
      mark();
      if (exchanging) {
        exchange.wait(ends.back());
        begun = cuda::Event(gpu, Timing::on);
        begun.record(exchange);
        const cuda::Event snapped(gpu);
        {
          const cuda::UseStream use(exchange);
          take_snapshot(params.values(), twin.values, 0.95f, 0.05f, own);
        }
        snapped.record(exchange);
        came = partner.exchange(own, received, snapped);
      }
      // As in the training loop, the host is at most one step ahead.
      check<DeviceError>(ends[ends.size() - 2].wait(kLimit), "a step takes more than 50 s");
      if (exchanging && i + 1 == kSteps) {
        check<DeviceError>(came.wait(kLimit), "an exchange takes more than 50 s");
        exchange_ms.push_back(cuda::Event::milliseconds(begun, came));
      }
    }
    check<DeviceError>(ends.back().wait(kLimit), "a step takes more than 50 s");
    return cuda::Event::milliseconds(ends.front(), ends.back()) / kSteps;
  };
  (void)timed(false);  // plans are measured now
  (void)timed(true);
  std::vector<double> ratios, with, without;
  exchange_ms.clear();
  for (int k = 0; k < kPairs; ++k) {
    without.push_back(timed(false));
    with.push_back(timed(true));
    ratios.push_back(with.back() / without.back());
  }
  std::fprintf(stderr,
               "gossip cost on one GPU: step %.2f ms, with an exchange in each %.2f ms: ratio "
               "%.4f; snapshot and both copies of %.0f MB take %.2f ms\n",
               median(without), median(with), median(ratios),
               static_cast<double>(own.bytes()) / 1e6, median(exchange_ms));
  EXPECT_EQ(received.to(Device::cpu()).as<float>()[size - 1], 0.01f) << "the last copy came";
}

}  // namespace
}  // namespace gossamer
