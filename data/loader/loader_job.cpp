// How a batch's memory is filled and lent.
#include "gossamer/data/loader/loader_job.h"

#include <cstring>
#include <span>

namespace gossamer::data {

void Job::put(int i, const Prepared& image) {
  const Memory& memory = lease->memory;
  static_cast<std::int32_t*>(memory.labels->data)[i] = image.label;
  if (!room) {
    if (image.aside) std::memcpy(place(i), image.pixels.data(), recipe->bytes());
    return;
  }
  // Boxes lie behind each other as they come, so that one copy moves them all. Where one lies is
  // chance; what its picture shows is not.
  const std::size_t at = used.fetch_add(image.pixels.size(), std::memory_order_relaxed);
  std::memcpy(static_cast<std::uint8_t*>(memory.images->data) + at, image.pixels.data(),
              image.pixels.size());
  Picture& picture = static_cast<Picture*>(memory.pictures->data)[i];
  picture = image.picture;
  picture.offset += static_cast<std::int64_t>(at);
}

void Job::note(int i, Prepared& image) {
  const std::scoped_lock lock(mutex);
  try {
    damaged.insert(damaged.end(), image.damaged.begin(), image.damaged.end());
  } catch (...) {
    // no memory: said by next(), not the end of a thread's process
    if (!image.error) image.error = std::current_exception();
  }
  image.damaged.clear();
  if (image.error && (!error || i < error_at)) {
    // moved on, never shared: its text is freed by the thread that reads it
    error = std::move(image.error);
    error_at = i;
  }
}

void Job::move(i64 from, i64 to) {
  const Memory& memory = lease->memory;
  const auto row = [&](const std::shared_ptr<Block>& block, std::size_t bytes) {
    auto* const first = static_cast<std::byte*>(block->data);
    std::memcpy(first + static_cast<std::size_t>(to) * bytes,
                first + static_cast<std::size_t>(from) * bytes, bytes);
  };
  row(memory.labels, sizeof(std::int32_t));
  if (room)
    row(memory.pictures, sizeof(Picture));
  else
    row(memory.images, recipe->bytes());
}

Batch Job::lend(i64 rows) {
  // Moved out, so that a thread which still looks at the job can't keep the memory.
  std::shared_ptr<Lease> held = std::move(lease);
  const auto wrap = [&](const std::shared_ptr<Block>& block, const Shape& shape, DType type) {
    return Tensor::wrap(block->data, shape, type, [held]() mutable { held.reset(); });
  };
  const Memory& memory = held->memory;
  const i64 side = recipe->size;
  Tensor labels = wrap(memory.labels, {rows}, DType::i32);
  if (!room) return {wrap(memory.images, {rows, side, side, 3}, DType::u8), std::move(labels)};
  const auto bytes = static_cast<i64>(used.load(std::memory_order_relaxed));
  const std::span pictures(static_cast<const Picture*>(memory.pictures->data),
                           static_cast<std::size_t>(rows));
  check_pictures(pictures, bytes, static_cast<int>(side), static_cast<int>(side));
  return {.images = {},
          .labels = std::move(labels),
          .bytes = wrap(memory.images, {bytes}, DType::u8),
          .pictures = wrap(memory.pictures, {rows * static_cast<i64>(sizeof(Picture))}, DType::u8),
          .room = static_cast<i64>(room),
          .size = side};
}

}  // namespace gossamer::data
