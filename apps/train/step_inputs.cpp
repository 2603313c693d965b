// See step_inputs.h.
#include "gossamer/apps/train/step_inputs.h"

#include <algorithm>

#include "gossamer/core/error.h"
#include "gossamer/core/input_pass.h"

namespace gossamer::apps {
namespace {

Tensor rows_of(const Tensor& t, i64 count) { return t.defined() ? t.slice(0, count) : t; }
i64 table_bytes(i64 count) { return count * static_cast<i64>(sizeof(Picture)); }

// The part of `room` that a batch occupies.
StepInputs::Views window(const StepInputs::Views& room, const data::Batch& batch) {
  const i64 count = batch.count();
  const data::Batch& b = room.batch;
  return {{rows_of(b.images, count), b.labels.slice(0, count), b.bytes,
           rows_of(b.pictures, table_bytes(count)), b.room, batch.size},
          room.numbers};
}

void copy(const Tensor& from, Tensor to) {
  if (from.defined()) to.slice(0, from.shape(0)).copy_from(from);
}
i64 bytes_of(const data::Batch& batch) { return batch.bytes.defined() ? batch.bytes.shape(0) : 0; }

// Copies what `from` has; of boxes only `bytes` bytes.
void copy(const StepInputs::Views& from, const StepInputs::Views& to, i64 bytes) {
  copy(from.batch.images, to.batch.images);
  copy(from.batch.labels, to.batch.labels);
  copy(rows_of(from.batch.bytes, bytes), to.batch.bytes);
  copy(from.batch.pictures, to.batch.pictures);
  copy(from.numbers, to.numbers);
}
void copy(const StepInputs::Views& from, const StepInputs::Views& to) {
  copy(from, to, bytes_of(from.batch));
}

Tensor pinned(i64 n) {
  auto block = cuda::allocate_pinned(static_cast<std::size_t>(n) * sizeof(float));
  return Tensor::wrap(block->data, {n}, DType::f32, [block] {});
}

}  // namespace

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

void StepInputs::refit(Views& views, const Views& brought) const {
  data::Batch& have = views.batch;
  const data::Batch& batch = brought.batch;
  const i64 count = batch.count(), numbers = brought.numbers.numel();
  const bool boxes = batch.bytes.defined(),
             fits = boxes ? have.room >= batch.room
                          : have.images.defined() && have.side() == batch.side();
  if (fits && have.count() >= count && views.numbers.numel() == numbers) return;
  const auto empty = [&](const Shape& shape, DType type) {
    return Tensor::empty(shape, type, device_);
  };
  have = {.images = boxes ? Tensor() : empty(batch.images.shape(), DType::u8),
          .labels = empty({count}, DType::i32),
          .bytes = boxes ? empty({batch.room}, DType::u8) : Tensor(),
          .pictures = boxes ? empty({table_bytes(count)}, DType::u8) : Tensor(),
          .room = batch.room};
  views.numbers = empty({numbers}, DType::f32);
}

void StepInputs::bring(const data::Batch& batch, std::span<const float> numbers) {
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
  landing.window = window(landing.device, batch);
  copy(landing.host, landing.window);
  landing.there = cuda::Event(device_);
  landing.there.record(*copies_);
}

StepInputs::Views StepInputs::take() {
  Landing& landing = landing_of(step_);
  check(landing.host.batch.labels.defined(),
        "take() without bring(), or twice for one batch: the batch was not brought, or "
        "step_ends() was not called");
  Views brought = landing.host;
  landing.host.batch = {};  // the loader may use its memory again
  if (!fixed_) return brought;
  refit(room_, brought);
  Views out = window(room_, brought.batch);
  if (device_.is_cpu()) {
    copy(brought, out);
    return out;
  }
  cuda::current_stream(device_).wait(landing.there);
  copy(landing.window, out, bytes_of(brought.batch));
  return out;
}

void StepInputs::step_ends() {
  Landing& landing = landing_of(step_++);
  if (device_.is_cpu()) return;
  cuda::Event end(device_);
  end.record(cuda::current_stream(device_));
  landing.end = end;
}

}  // namespace gossamer::apps
