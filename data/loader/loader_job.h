// What a loader hands about: batch memory that is used again, batches being filled, images on their
// way into one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gossamer/core/cuda.h"
#include "gossamer/core/dtype.h"
#include "gossamer/core/memory.h"
#include "gossamer/data/augment/augment.h"

namespace gossamer::data {

struct Memory {
  // images: their pixels or their boxes; pictures: of boxes, else none
  std::shared_ptr<Block> images, labels, pictures;
};

// Batch memory, reused: a batch that the user dropped comes back here. Shared, because a batch may
// outlive its loader.
class Pool {
 public:
  // `ready` batches are allocated at once: what does not fit shows at the start, not after hours.
  struct Bytes {
    std::size_t images, labels, pictures;
  };
  Pool(Bytes bytes, int ready, bool pinned) : bytes_(bytes), pinned_(pinned) {
    for (int i = 0; i < ready; ++i) free_.push_back(make());
  }
  Memory take() {
    {
      const std::scoped_lock lock(mutex_);
      if (!free_.empty()) {
        Memory memory = std::move(free_.back());
        free_.pop_back();
        return memory;
      }
    }
    return make();
  }
  void give(Memory memory) {
    // its own cache lets it rest until copies from it are over
    if (pinned_) return;
    const std::scoped_lock lock(mutex_);
    free_.push_back(std::move(memory));
  }

 private:
  Memory make() const {
    const auto block = [this](std::size_t bytes) {
      return bytes == 0 ? nullptr : pinned_ ? cuda::allocate_pinned(bytes) : allocate(bytes);
    };
    return {block(bytes_.images), block(bytes_.labels), block(bytes_.pictures)};
  }

  Bytes bytes_;
  bool pinned_;
  std::mutex mutex_;
  std::vector<Memory> free_;
};

struct Lease {
  explicit Lease(std::shared_ptr<Pool> from) : pool(std::move(from)), memory(pool->take()) {}
  ~Lease() { pool->give(std::move(memory)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  std::shared_ptr<Pool> pool;
  Memory memory;
};

struct Damage {
  i64 index;
  std::string text;  // "name: what is wrong"
};

// One image on its way into a batch.
struct Prepared {
  // a box, or an image made aside; else it is in its place already
  std::vector<std::uint8_t> pixels;
  bool aside = false;
  Picture picture{};  // of a box
  int label = 0;
  bool absent = false;          // damaged, and not to be replaced
  std::vector<Damage> damaged;  // what was met on the way to a good one
  std::exception_ptr error;
};

// One batch being filled.
struct Job {
  // For the thread that handed the row in, alone.
  std::uint8_t* place(int i) const {
    return static_cast<std::uint8_t*>(lease->memory.images->data) +
           static_cast<std::size_t>(i) * recipe->bytes();
  }
  void put(int i, const Prepared&);
  // its error, and what was damaged on the way to it; they are gone from there
  void note(int i, Prepared&);
  void move(i64 from, i64 to);  // a row, to the place of an absent one
  // the batch is whole: its memory, to be kept as long as its tensors live
  Batch lend(i64 rows);

  i64 epoch = 0, begin = 0;  // begin: position of its first image in the order
  int count = 0;
  std::shared_ptr<const std::vector<i64>> order;
  std::shared_ptr<const Recipe> recipe;
  std::shared_ptr<Lease> lease;
  // for the boxes of a batch, bytes; 0: images come out resized
  std::size_t room = 0;
  std::atomic<std::size_t> used{0};  // of it
  // rows that have an owner, which may still be writing; `done` counts them afterwards
  std::unique_ptr<std::atomic<bool>[]> handed_in;
  // rows that stay empty; each written by whoever hands it in
  std::vector<char> absent;
  std::atomic<int> claimed{0}, done{0};  // claimed: somebody began to prepare it
  std::atomic<bool> cancelled{false};
  std::mutex mutex;  // guards what follows until all is done
  std::vector<Damage> damaged;
  std::exception_ptr error;
  // the first image that failed, whichever thread was faster
  int error_at = 0;
};

// What LoaderOptions amount to, checked (loader_options.cpp). ConfigError and DataError say what
// makes no sense.
i64 steps_of(const Dataset&, const LoaderOptions&);  // batches an epoch
Recipe recipe_of(const LoaderOptions&, int size);
std::size_t box_bytes_of(const LoaderOptions&);  // room for an image's box; 0: no boxes

}  // namespace gossamer::data
