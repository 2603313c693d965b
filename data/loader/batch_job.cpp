// How a batch's memory is taken, filled and handed over.
#include "gossamer/data/loader/batch_job.h"

#include <cstring>
#include <span>

#include "gossamer/core/cuda.h"

namespace gossamer::data {

BatchPool::BatchPool(Bytes bytes, int ready, bool pinned) : bytes_(bytes), pinned_(pinned) {
  for (int i = 0; i < ready; ++i) free_.push_back(make());
}

BatchMemory BatchPool::take() {
  {
    const std::scoped_lock lock(mutex_);
    if (!free_.empty()) {
      BatchMemory memory = std::move(free_.back());
      free_.pop_back();
      return memory;
    }
  }
  return make();
}

void BatchPool::give_back(BatchMemory memory) {
  // The cache of pinned memory keeps a block until copies from it are over.
  if (pinned_) return;
  const std::scoped_lock lock(mutex_);
  free_.push_back(std::move(memory));
}

BatchMemory BatchPool::make() const {
  const auto block = [this](std::size_t bytes) {
    return bytes == 0 ? nullptr : pinned_ ? cuda::allocate_pinned(bytes) : allocate(bytes);
  };
  return {block(bytes_.images), block(bytes_.labels), block(bytes_.pictures)};
}

void BatchJob::put(int i, ImageInHand& image) {
  const BatchMemory& memory = pooled->memory;
  static_cast<std::int32_t*>(memory.labels->data)[i] = image.label;
  if (!room) {
    std::uint8_t* const row = static_cast<std::uint8_t*>(memory.images->data) +
                              static_cast<std::size_t>(i) * recipe->bytes();
    if (image.in_pixels)
      std::memcpy(row, image.pixels.data(), recipe->bytes());
    else
      image.preparer.finish(row);
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

void BatchJob::note(int i, ImageInHand& image) {
  const std::scoped_lock lock(mutex);
  try {
    damaged.insert(damaged.end(), image.damaged.begin(), image.damaged.end());
  } catch (...) {
    // No memory: next() throws it. Thrown here, it would end the process.
    if (!image.error) image.error = std::current_exception();
  }
  image.damaged.clear();
  if (image.error && (!error || i < error_at)) {
    // Moved, not shared: the thread that reads its text also frees it.
    error = std::move(image.error);
    error_at = i;
  }
}

void BatchJob::move_row(i64 from, i64 to) {
  const BatchMemory& memory = pooled->memory;
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

Batch BatchJob::batch(i64 rows, std::vector<i64> samples) {
  // Moved out, so that a thread which still looks at the job can't keep the memory.
  std::shared_ptr<PooledMemory> held = std::move(pooled);
  const auto wrap = [&](const std::shared_ptr<Block>& block, const Shape& shape, DType type) {
    return Tensor::wrap(block->data, shape, type, [held]() mutable { held.reset(); });
  };
  const BatchMemory& memory = held->memory;
  const i64 side = recipe->size;
  Tensor labels = wrap(memory.labels, {rows}, DType::i32);
  if (!room)
    return {.images = wrap(memory.images, {rows, side, side, 3}, DType::u8),
            .labels = std::move(labels),
            .samples = std::move(samples)};
  const auto bytes = static_cast<i64>(used.load(std::memory_order_relaxed));
  const std::span pictures(static_cast<const Picture*>(memory.pictures->data),
                           static_cast<std::size_t>(rows));
  check_pictures(pictures, bytes, static_cast<int>(side), static_cast<int>(side));
  return {.images = {},
          .labels = std::move(labels),
          .bytes = wrap(memory.images, {bytes}, DType::u8),
          .pictures = wrap(memory.pictures, {rows * static_cast<i64>(sizeof(Picture))}, DType::u8),
          .room = static_cast<i64>(room),
          .size = side,
          .samples = std::move(samples)};
}

}  // namespace gossamer::data
