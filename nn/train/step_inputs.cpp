// See step_inputs.h.
#include "gossamer/nn/train/step_inputs.h"

#include <algorithm>

#include "gossamer/core/error.h"

namespace gossamer::nn {
namespace {

// Copies the elements that `from` has; both may have any shape.
void copy_elements(const Tensor& from, const Tensor& to) {
  to.reshape({-1}).slice(0, from.numel()).copy_from(from.reshape({-1}));
}

Tensor pinned(i64 n) {
  auto block = cuda::allocate_pinned(static_cast<std::size_t>(n) * sizeof(float));
  return Tensor::wrap(block->data, {n}, DType::f32, [block] {});
}

}  // namespace

Shape StepBatch::shape_of(std::size_t tensor) const {
  const i64 all = tensor < room.size() ? room[tensor] : 0;
  return all > 0 ? Shape{all} : tensors[tensor].shape();
}

StepInputs::StepInputs(Device device, bool like_gpu)
    : device_(device), fixed_(like_gpu || !device.is_cpu()) {
  if (!device.is_cpu()) copies_.emplace(device);
}

StepInputs::~StepInputs() {
  try {
    for (Landing& landing : landings_) await(landing);
  } catch (const Error&) {  // the device failed, and its memory is lost
  }
}

void StepInputs::await(Landing& landing) {
  if (landing.end)
    check<DeviceError>(landing.end->wait(std::chrono::minutes(10)), "a training step on ", device_,
                       " takes more than ten minutes");
  landing.end.reset();
}

void StepInputs::refit(Room& room, const Views& brought) const {
  const StepBatch& batch = brought.batch;
  room.tensors.resize(batch.tensors.size());
  const auto fit = [&](Tensor& have, const Tensor& like, i64 wanted) {
    if (!have.defined() || have.dtype() != like.dtype() || have.numel() < wanted)
      have = Tensor::empty({wanted}, like.dtype(), device_);
  };
  for (std::size_t i = 0; i < batch.tensors.size(); ++i)
    fit(room.tensors[i], batch.tensors[i], batch.shape_of(i).numel());
  fit(room.numbers, brought.numbers, brought.numbers.numel());
}

namespace {

// The part of `room` that a batch occupies.
StepInputs::Views window(const std::vector<Tensor>& room, const Tensor& numbers,
                         const StepInputs::Views& brought) {
  StepInputs::Views out{brought.batch, numbers.slice(0, brought.numbers.numel())};
  for (std::size_t i = 0; i < room.size(); ++i) {
    const Shape shape = brought.batch.shape_of(i);
    out.batch.tensors[i] = room[i].slice(0, shape.numel()).reshape(shape);
  }
  return out;
}

void copy(const StepInputs::Views& from, const std::vector<Tensor>& to, const Tensor& numbers) {
  for (std::size_t i = 0; i < to.size(); ++i) copy_elements(from.batch.tensors[i], to[i]);
  copy_elements(from.numbers, numbers);
}

}  // namespace

void StepInputs::bring(const StepBatch& batch, std::span<const float> numbers) {
  check(brought_ <= step_ + 1,
        "two batches were brought before the step of an earlier one has ended");
  Landing& landing = landing_of(brought_++);
  const auto count = static_cast<i64>(numbers.size());
  await(landing);
  landing.host.batch = batch;
  if (device_.is_cpu()) {
    landing.host.numbers = Tensor::from(numbers, {count});
    return;
  }
  if (!landing.host.numbers.defined() || landing.host.numbers.numel() != count)
    landing.host.numbers = pinned(count);
  std::ranges::copy(numbers, landing.host.numbers.as<float>());
  const cuda::UseStream use(*copies_);
  refit(landing.device, landing.host);
  copy(landing.host, landing.device.tensors, landing.device.numbers);
  landing.there = cuda::Event(device_);
  landing.there.record(*copies_);
}

StepInputs::Views StepInputs::take() {
  Landing& landing = landing_of(step_);
  check(!landing.host.batch.empty(),
        "take() without bring(), or twice for one batch: the batch was not brought, or "
        "step_ends() was not called");
  Views brought = landing.host;
  landing.host.batch = {};  // the loader may use its memory again
  if (!fixed_) return brought;
  refit(room_, brought);
  Views out = window(room_.tensors, room_.numbers, brought);
  if (device_.is_cpu()) {
    copy(brought, room_.tensors, room_.numbers);
    return out;
  }
  cuda::current_stream(device_).wait(landing.there);
  Views landed = brought;
  for (std::size_t i = 0; i < brought.batch.tensors.size(); ++i)
    landed.batch.tensors[i] = landing.device.tensors[i].slice(0, brought.batch.tensors[i].numel());
  landed.numbers = landing.device.numbers.slice(0, brought.numbers.numel());
  copy(landed, room_.tensors, room_.numbers);
  return out;
}

void StepInputs::step_ends() {
  Landing& landing = landing_of(step_++);
  if (device_.is_cpu()) return;
  cuda::Event end(device_);
  end.record(cuda::current_stream(device_));
  landing.end = end;
}

}  // namespace gossamer::nn
