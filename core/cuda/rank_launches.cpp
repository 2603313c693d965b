// Events around every launch, after one that loads the kernel and one that fills the cache.
#include "gossamer/core/cuda/rank_launches.h"

#include <atomic>
#include <chrono>
#include <exception>

#include "gossamer/core/cuda.h"
#include "gossamer/core/tensor.h"

namespace gossamer {
namespace {

using std::chrono::steady_clock;
// How long the GPU runs before anything is timed: once from idle, later after pauses of the host.
constexpr std::chrono::milliseconds kFirstWarmUp{200}, kWarmUp{20};
std::atomic<bool> warm{false};

}  // namespace

std::vector<Ranked> rank_launches(Device device, std::size_t n,
                                  const std::function<void(std::size_t)>& launch) {
  const cuda::Stream stream = cuda::current_stream(device);
  Tensor other =
      Tensor::empty({static_cast<i64>(2 * cuda::properties(device).l2)}, DType::u8, device);
  const cuda::Event marks[] = {cuda::Event(device, cuda::Event::Timing::on),
                               cuda::Event(device, cuda::Event::Timing::on)};
  std::exception_ptr first;
  const auto time = [&](std::size_t i) {
    try {
      launch(i);
      other.zero();
      marks[0].record(stream);
      launch(i);
      marks[1].record(stream);
      if (!marks[1].wait(std::chrono::seconds(60)))
        fail<DeviceError>("a launch takes longer than a minute on ", device);
      return 1e3 * cuda::Event::milliseconds(marks[0], marks[1]);
    } catch (const DeviceError&) {
      if (!first) first = std::current_exception();
      return 0.0;
    }
  };
  const auto begin = steady_clock::now();
  const auto long_enough = warm.exchange(true) ? kWarmUp : kFirstWarmUp;
  for (std::size_t i = 0; i < n;)
    if (time(i) <= 0)
      ++i;
    else if (steady_clock::now() - begin >= long_enough)
      break;
  std::vector<Ranked> order = rank_by_time(n, time);
  if (order.empty() && first) std::rethrow_exception(first);
  return order;
}

}  // namespace gossamer
