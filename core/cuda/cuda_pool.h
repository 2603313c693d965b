// The caching allocator of device and pinned memory: pieces of large segments, reused in stream
// order. It calls no vendor: what it needs from one is an interface, so that all of it is tested
// without a GPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "gossamer/core/memory.h"

namespace gossamer::cuda {

// Where segments come from, and how to know that a stream has got somewhere.
class PoolSystem {
 public:
  virtual ~PoolSystem() = default;
  virtual void* allocate(std::size_t bytes) = 0;  // null: there is no more
  virtual void free(void* segment) = 0;
  // a mark behind the work enqueued on the stream so far
  virtual void* mark(void* stream) = 0;
  virtual bool passed(void* mark) = 0;  // that work is done
  virtual void drop(void* mark) = 0;
};

// What several pools of one device have out together. Thread-safe.
class Usage {
 public:
  void took(std::size_t bytes);
  void gave(std::size_t bytes) { in_use_ -= bytes; }
  std::size_t in_use() const { return in_use_; }
  std::size_t peak() const { return peak_; }
  void reset_peak() { peak_ = in_use_.load(); }

 private:
  std::atomic<std::size_t> in_use_ = 0, peak_ = 0;
};

// A piece belongs to the stream it was taken for. Given back, it is free for that stream at once,
// because work there is in order; after used_on(), not before all its marks have passed. It never
// goes to another stream. Free neighbours of a segment are joined. Thread-safe.
class CachingPool {
 public:
  // kept: segments stay until the end, since recorded work knows their addresses
  enum class Cache { returned, kept };
  // usage: if given, what is taken here counts there too
  explicit CachingPool(PoolSystem& system, Cache cache = Cache::returned, Usage* usage = nullptr)
      : system_(system), cache_(cache), usage_(usage) {}
  ~CachingPool();  // frees every segment: no piece may be out
  CachingPool(const CachingPool&) = delete;
  CachingPool& operator=(const CachingPool&) = delete;

  // null: no memory, not even after the cache was given back
  void* take(std::size_t bytes, void* stream);
  void give(void* data);
  bool used_on(void* data, void* stream);  // false: not a piece of this pool
  std::size_t size_of(void* data) const;   // bytes of a piece that is out, as rounded
  // whole free segments go back to the system
  void release();
  MemoryStats stats() const;
  std::size_t largest_free() const;

 private:
  struct Piece {
    char* data;
    std::size_t bytes;
    void* stream;
    bool free;
    Piece *before, *after;  // neighbours in the segment
    std::vector<void*> marks;
  };
  struct Smaller {
    bool operator()(const Piece* a, const Piece* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
    }
  };
  using FreeList = std::set<Piece*, Smaller>;

  Piece* find_free(std::size_t bytes, void* stream);
  Piece* new_segment(std::size_t bytes, void* stream);
  void split(Piece* piece, std::size_t bytes);
  void make_free(Piece* piece);
  Piece* join(Piece* left, Piece* right);
  bool ready(Piece& piece);
  // pieces whose marks have passed become free
  void collect();
  void release_locked();

  PoolSystem& system_;
  const Cache cache_;
  Usage* const usage_;
  mutable std::mutex mutex_;
  std::map<void*, FreeList> free_;                  // by stream
  std::map<void*, std::unique_ptr<Piece>> pieces_;  // by address
  // given back, but another stream may still read them
  std::vector<Piece*> waiting_;
  MemoryStats stats_;
};

}  // namespace gossamer::cuda
