// See step_inputs.h.
#include "gossamer/apps/step_inputs.h"

#include <algorithm>

#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

// The first rows of `room`.
StepInputs::Views window(const StepInputs::Views& room, i64 rows) {
  return {room.images.slice(0, rows), room.labels.slice(0, rows), room.numbers};
}

Tensor pinned(i64 n) {
  auto block = cuda::allocate_pinned(static_cast<std::size_t>(n) * sizeof(float));
  return Tensor::wrap(block->data, {n}, DType::f32, [block] {});
}

}  // namespace

StepInputs::StepInputs(Device device, bool fixed) : device_(device), fixed_(fixed || !device.is_cpu()) {
  if (!device.is_cpu()) copies_.emplace(device);
}

StepInputs::~StepInputs() {
  try {
    for (Landing& landing : landings_) await(landing);
  } catch (const Error&) {                             // the device is lost, and its memory with it
  }
}

void StepInputs::await(Landing& landing) {
  if (landing.end) check<DeviceError>(landing.end->wait(std::chrono::minutes(10)), "a training step on ", device_, " takes more than ten minutes");
  landing.end.reset();
}

void StepInputs::refit(Views& views, const data::Batch& batch, i64 numbers) const {
  const Shape& wanted = batch.images.shape();
  const bool fits = views.images.defined() && views.images.shape(0) >= wanted[0] && views.images.shape(1) == wanted[1] &&
                    views.images.shape(2) == wanted[2];
  if (fits && views.numbers.numel() == numbers) return;
  views = {Tensor::empty(wanted, DType::u8, device_), Tensor::empty({wanted[0]}, DType::i32, device_), Tensor::empty({numbers}, DType::f32, device_)};
}

StepInputs::Views StepInputs::put(const data::Batch& batch, std::span<const float> numbers) {
  const auto count = static_cast<i64>(numbers.size());
  const i64 rows = batch.images.shape(0);
  if (!fixed_) return {batch.images, batch.labels, Tensor::from(numbers, {count})};
  refit(room_, batch, count);
  const Views out = window(room_, rows);
  if (device_.is_cpu()) {
    Tensor(out.images).copy_from(batch.images);
    Tensor(out.labels).copy_from(batch.labels);
    std::ranges::copy(numbers, out.numbers.as<float>());
    return out;
  }
  Landing& landing = landings_[turn_];
  await(landing);
  if (!landing.numbers.defined() || landing.numbers.numel() != count) landing.numbers = pinned(count);
  std::ranges::copy(numbers, landing.numbers.as<float>());
  const cuda::Event there(device_);
  Views from;
  {
    const cuda::UseStream use(*copies_);
    refit(landing.device, batch, count);
    from = window(landing.device, rows);
    from.images.copy_from(batch.images);
    from.labels.copy_from(batch.labels);
    from.numbers.copy_from(landing.numbers);
    there.record(*copies_);
  }
  cuda::current_stream(device_).wait(there);
  Tensor(out.images).copy_from(from.images);
  Tensor(out.labels).copy_from(from.labels);
  Tensor(out.numbers).copy_from(from.numbers);
  return out;
}

void StepInputs::step_ends() {
  if (device_.is_cpu()) return;
  cuda::Event end(device_);
  end.record(cuda::current_stream(device_));
  landings_[turn_].end = end;
  turn_ = 1 - turn_;
}

}  // namespace gossamer::apps
