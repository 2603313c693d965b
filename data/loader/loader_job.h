// What a loader hands about: batch memory that is used again, batches being filled, images on their way into one.
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
  std::shared_ptr<Block> images, labels;
};

// Batch memory, reused: a batch that the user dropped comes back here. Shared, because a batch may outlive its loader.
class Pool {
 public:
  // `ready` batches are allocated at once: what does not fit shows at the start, not after hours.
  Pool(std::size_t image_bytes, std::size_t label_bytes, int ready, bool pinned)
      : image_bytes_(image_bytes), label_bytes_(label_bytes), pinned_(pinned) {
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
    if (pinned_) return;                             // its own cache lets it rest until copies from it are over
    const std::scoped_lock lock(mutex_);
    free_.push_back(std::move(memory));
  }

 private:
  Memory make() const {
    const auto block = [this](std::size_t bytes) { return pinned_ ? cuda::allocate_pinned(bytes) : allocate(bytes); };
    return {block(image_bytes_), block(label_bytes_)};
  }

  std::size_t image_bytes_, label_bytes_;
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
  std::string text;                        // "name: what is wrong"
};

struct Job {                               // one batch being filled
  i64 epoch = 0, begin = 0;                // begin: position of its first image in the order
  int count = 0;
  std::shared_ptr<const std::vector<i64>> order;
  std::shared_ptr<const Recipe> recipe;
  std::shared_ptr<Lease> lease;
  std::unique_ptr<std::atomic<bool>[]> handed_in;
  std::vector<char> absent;                // rows that stay empty; each written by whoever hands it in
  std::atomic<int> claimed{0}, done{0};
  std::atomic<bool> cancelled{false};
  std::mutex mutex;                        // guards what follows until all is done
  std::vector<Damage> damaged;
  std::exception_ptr error;
  int error_at = 0;                        // the first image that failed, whichever thread was faster
};

// What LoaderOptions amount to, checked (loader_options.cpp). ConfigError and DataError say what makes no sense.
i64 steps_of(const Dataset&, const LoaderOptions&);        // batches an epoch
Recipe recipe_of(const LoaderOptions&, int size);

// One image on its way into a batch.
struct Prepared {
  std::vector<std::uint8_t> pixels;
  int label = 0;
  bool absent = false;                     // damaged, and not to be replaced
  std::vector<Damage> damaged;             // what was met on the way to a good one
  std::exception_ptr error;
};

}  // namespace gossamer::data
