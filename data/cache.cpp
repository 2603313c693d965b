// The first thread that reads a sample claims it, copies it and publishes the copy. Other threads
// that need it meanwhile read it from the data set.
#include "gossamer/data/cache.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <utility>

namespace gossamer::data {
namespace {

constexpr std::size_t kBlock = std::size_t{64} << 20;

class CachedSet final : public Dataset {
 public:
  CachedSet(std::shared_ptr<const Dataset> set, std::shared_ptr<Cache> cache)
      : set_(std::move(set)),
        cache_(std::move(cache)),
        cached_(static_cast<std::size_t>(set_->size())) {}
  i64 size() const override { return static_cast<i64>(cached_.size()); }
  int label(i64 i) const override { return set_->label(i); }
  std::string name(i64 i) const override { return set_->name(i); }
  Raw raw() const override { return set_->raw(); }
  const std::vector<std::string>& classes() const override { return set_->classes(); }

  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
    Cached& cached = cached_.at(static_cast<std::size_t>(i));
    if (const std::byte* const at = cached.at.load(std::memory_order_acquire))
      return {at, cached.bytes};
    const std::span<const std::byte> read = set_->bytes(i, buffer);
    if (!cached.claimed.exchange(true, std::memory_order_relaxed)) {
      if (std::byte* const room = cache_->take(read.size())) {
        std::ranges::copy(read, room);
        cached.bytes = static_cast<std::uint32_t>(read.size());
        cached.at.store(room, std::memory_order_release);
      }
    }
    return read;
  }

 private:
  struct Cached {
    std::atomic<const std::byte*> at = nullptr;
    // never taken back: a cache without room for a sample has none later
    std::atomic<bool> claimed = false;
    std::uint32_t bytes = 0;
  };
  std::shared_ptr<const Dataset> set_;
  std::shared_ptr<Cache> cache_;
  mutable std::vector<Cached> cached_;
};

}  // namespace

std::byte* Cache::take(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes > in_block_) {
    const std::size_t size = std::min(left_, std::max(kBlock, bytes));
    if (size < bytes) {
      full_ = true;
      return nullptr;
    }
    try {
      blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    } catch (const std::bad_alloc&) {
      left_ = 0;
      full_ = true;
      return nullptr;
    }
    at_ = blocks_.back().get();
    in_block_ = size;
    left_ -= size;
  }
  in_block_ -= bytes;
  used_ += bytes;
  return std::exchange(at_, at_ + bytes);
}

std::size_t Cache::used() const {
  const std::scoped_lock lock(mutex_);
  return used_;
}

bool Cache::full() const {
  const std::scoped_lock lock(mutex_);
  return full_;
}

std::shared_ptr<const Dataset> cached(std::shared_ptr<const Dataset> set,
                                      std::shared_ptr<Cache> cache) {
  return std::make_shared<CachedSet>(std::move(set), std::move(cache));
}

}  // namespace gossamer::data
