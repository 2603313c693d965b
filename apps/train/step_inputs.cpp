// See step_inputs.h.
#include "gossamer/apps/train/step_inputs.h"

#include <algorithm>

#include "gossamer/core/error.h"
#include "gossamer/core/fused.h"

namespace gossamer::apps {
namespace {

Tensor rows_of(const Tensor& t, i64 count) { return t.defined() ? t.slice(0, count) : t; }
i64 table_bytes(i64 count) { return count * static_cast<i64>(sizeof(fused::Picture)); }

// The part of `room` that a batch takes.
StepInputs::Views window(const StepInputs::Views& room, const data::Batch& batch) {
  const i64 count = batch.count();
  const data::Batch& b = room.batch;
  return {{rows_of(b.images, count), b.labels.slice(0, count), b.bytes, rows_of(b.pictures, table_bytes(count)), b.room, batch.size}, room.numbers};
}

void copy(const Tensor& from, Tensor to) {
  if (from.defined()) to.slice(0, from.shape(0)).copy_from(from);
}
// What `from` has of a batch's pixels and labels; of boxes only so many bytes as there are.
void copy(const data::Batch& from, const data::Batch& to, i64 bytes) {
  copy(from.images, to.images);
  copy(from.labels, to.labels);
  copy(rows_of(from.bytes, bytes), to.bytes);
  copy(from.pictures, to.pictures);
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
  data::Batch& have = views.batch;
  const i64 count = batch.count();
  const bool boxes = batch.bytes.defined(), fits = boxes ? have.room >= batch.room : have.images.defined() && have.side() == batch.side();
  if (fits && have.count() >= count && views.numbers.numel() == numbers) return;
  const auto empty = [&](const Shape& shape, DType type) { return Tensor::empty(shape, type, device_); };
  have = {.images = boxes ? Tensor() : empty(batch.images.shape(), DType::u8),
          .labels = empty({count}, DType::i32),
          .bytes = boxes ? empty({batch.room}, DType::u8) : Tensor(),
          .pictures = boxes ? empty({table_bytes(count)}, DType::u8) : Tensor(),
          .room = batch.room};
  views.numbers = empty({numbers}, DType::f32);
}

StepInputs::Views StepInputs::put(const data::Batch& batch, std::span<const float> numbers) {
  const auto count = static_cast<i64>(numbers.size());
  if (!fixed_) return {batch, Tensor::from(numbers, {count})};
  const i64 bytes = batch.bytes.defined() ? batch.bytes.shape(0) : 0;
  refit(room_, batch, count);
  const Views out = window(room_, batch);
  if (device_.is_cpu()) {
    copy(batch, out.batch, bytes);
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
    from = window(landing.device, batch);
    copy(batch, from.batch, bytes);
    from.numbers.copy_from(landing.numbers);
    there.record(*copies_);
  }
  cuda::current_stream(device_).wait(there);
  copy(from.batch, out.batch, bytes);
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
