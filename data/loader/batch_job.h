// Batches while they are filled, and their memory, which is used again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "gossamer/core/memory.h"
#include "gossamer/data/loader.h"
#include "gossamer/data/loader/image_maker.h"

namespace gossamer::data {

struct BatchMemory {
  // images: pixels or boxes; pictures: a Picture for each box, or null
  std::shared_ptr<Block> images, labels, pictures;
};

// Memory of batches. One that the user dropped comes back here.
class BatchPool {
 public:
  struct Bytes {
    std::size_t images, labels, pictures;
  };
  // `ready` batches are allocated at once: what does not fit shows at the start, not after hours.
  BatchPool(Bytes, int ready, bool pinned);
  BatchMemory take();
  void give_back(BatchMemory);

 private:
  BatchMemory make() const;

  Bytes bytes_;
  bool pinned_;
  std::mutex mutex_;
  std::vector<BatchMemory> free_;
};

// The memory of one batch, given back at the end. Shared with the batch's tensors, which may
// outlive the loader.
struct PooledMemory {
  explicit PooledMemory(std::shared_ptr<BatchPool> from)
      : pool(std::move(from)), memory(pool->take()) {}
  ~PooledMemory() { pool->give_back(std::move(memory)); }
  PooledMemory(const PooledMemory&) = delete;
  PooledMemory& operator=(const PooledMemory&) = delete;
  std::shared_ptr<BatchPool> pool;
  BatchMemory memory;
};

// One batch being filled.
struct BatchJob {
  ImagePlace place(int i) const { return {epoch, begin + i, *order}; }
  // Writes image i into its row. For the thread that owns the row, alone.
  void put(int i, ImageInHand&);
  // Keeps the image's error and what was damaged before it; they are moved away from there.
  void note(int i, ImageInHand&);
  void move_row(i64 from, i64 to);  // to the row of an absent one
  // The batch is whole: its tensors, which keep the memory as long as they live.
  Batch batch(i64 rows, std::vector<i64> samples);

  i64 epoch = 0, begin = 0;  // begin: position of its first image in the order
  int count = 0;
  std::shared_ptr<const std::vector<i64>> order;
  std::shared_ptr<const Recipe> recipe;
  std::shared_ptr<PooledMemory> pooled;
  // for the boxes of a batch, bytes; 0: images come out resized
  std::size_t room = 0;
  std::atomic<std::size_t> used{0};  // of it
  // Whether a row has an owner, which may still be writing. `done` counts the written rows.
  std::unique_ptr<std::atomic<bool>[]> owned;
  // rows that stay empty; each written by its owner
  std::vector<char> absent;
  std::atomic<int> claimed{0}, done{0};  // claimed: a thread has begun to make it
  std::atomic<bool> cancelled{false};
  std::mutex mutex;  // guards what follows until all is done
  std::vector<DamagedImage> damaged;
  // of the first image of the batch that failed, whichever thread was faster; error_at: its row
  std::exception_ptr error;
  int error_at = 0;
};

}  // namespace gossamer::data
