// A cache of encoded samples in memory: for slow disks, and to read an image without the kernel's
// copy of it.
// Threads: any.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "gossamer/data/dataset.h"

namespace gossamer::data {

// Memory for the samples of one data set or several, up to a limit. Nothing is evicted: since each
// epoch has another order, no sample is worth more than another.
class Cache {
 public:
  explicit Cache(std::size_t most_bytes) : left_(most_bytes) {}
  // Room for `bytes`, valid as long as the cache. nullptr: it would be above the limit, or there is
  // no memory.
  std::byte* take(std::size_t bytes);
  std::size_t used() const;
  bool full() const;  // a sample found no room

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* at_ = nullptr;
  std::size_t in_block_ = 0, left_, used_ = 0;
  bool full_ = false;
};

// The data set, with each sample stored in the cache when it is first read, while there is room.
// Later reads return these bytes, even if the file has changed. A sample that can't be read is not
// stored; the next read tries again.
std::shared_ptr<const Dataset> cached(std::shared_ptr<const Dataset> set,
                                      std::shared_ptr<Cache> cache);

}  // namespace gossamer::data
