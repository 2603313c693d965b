// Best fit with splitting and joining. Small requests share segments of 2 MiB, larger ones segments
// of 32 MiB, the largest have their own.
#include "gossamer/core/cuda/cuda_pool.h"

#include <algorithm>

namespace gossamer::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
// every piece starts and ends on a multiple: enough for vector loads, cuDNN and NCCL
constexpr std::size_t kGrain = 512;
constexpr std::size_t kSmall = kMiB, kSmallSegment = 2 * kMiB;
constexpr std::size_t kLarge = 16 * kMiB, kLargeSegment = 32 * kMiB;

std::size_t up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }
std::size_t rounded(std::size_t bytes) {
  return up(bytes ? bytes : 1, bytes < kSmall ? kGrain : 64 * kGrain);
}
std::size_t segment_for(std::size_t bytes) {
  return bytes < kSmall ? kSmallSegment : bytes < kLarge ? kLargeSegment : up(bytes, 2 * kMiB);
}

}  // namespace

void Usage::took(std::size_t bytes) {
  const std::size_t now = in_use_ += bytes;
  std::size_t before = peak_;
  while (before < now && !peak_.compare_exchange_weak(before, now)) {
  }
}

CachingPool::~CachingPool() {
  for (Piece* piece : waiting_)
    for (void* mark : piece->marks) system_.drop(mark);
  for (auto& [data, piece] : pieces_)
    if (!piece->before) system_.free(piece->data);  // the first of its segment
}

void* CachingPool::take(std::size_t bytes, void* stream) {
  const std::size_t wanted = rounded(bytes);
  const std::scoped_lock lock(mutex_);
  collect();
  Piece* piece = find_free(wanted, stream);
  if (!piece) piece = new_segment(wanted, stream);
  if (!piece) {
    release_locked();
    piece = new_segment(wanted, stream);
    if (!piece) return nullptr;
  }
  split(piece, wanted);
  piece->free = false;
  stats_.in_use += piece->bytes;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  if (usage_) usage_->took(piece->bytes);
  return piece->data;
}

// The smallest that fits. A large segment is not cut for a small request: the next step needs it
// whole.
CachingPool::Piece* CachingPool::find_free(std::size_t bytes, void* stream) {
  FreeList& list = free_[stream];
  Piece key{nullptr, bytes, nullptr, true, nullptr, nullptr, {}};
  const auto it = list.lower_bound(&key);
  if (it == list.end()) return nullptr;
  Piece* const piece = *it;
  const std::size_t most = bytes < kSmall   ? kSmallSegment
                           : bytes < kLarge ? kLargeSegment
                                            : 2 * bytes;
  if (piece->bytes > most) return nullptr;
  list.erase(it);
  stats_.cached -= piece->bytes;
  return piece;
}

CachingPool::Piece* CachingPool::new_segment(std::size_t bytes, void* stream) {
  const std::size_t size = segment_for(bytes);
  char* const data = static_cast<char*>(system_.allocate(size));
  if (!data) return nullptr;
  ++stats_.allocations;
  auto piece = std::make_unique<Piece>(Piece{data, size, stream, true, nullptr, nullptr, {}});
  return (pieces_[data] = std::move(piece)).get();
}

void CachingPool::split(Piece* piece, std::size_t bytes) {
  const std::size_t rest = piece->bytes - bytes;
  if (rest < (bytes < kSmall ? kGrain : kMiB)) return;
  auto tail = std::make_unique<Piece>(
      Piece{piece->data + bytes, rest, piece->stream, true, piece, piece->after, {}});
  if (piece->after) piece->after->before = tail.get();
  piece->after = tail.get();
  piece->bytes = bytes;
  stats_.cached += rest;
  free_[piece->stream].insert(tail.get());
  pieces_[tail->data] = std::move(tail);
}

void CachingPool::give(void* data) {
  const std::scoped_lock lock(mutex_);
  Piece* const piece = pieces_.at(data).get();
  stats_.in_use -= piece->bytes;
  stats_.cached += piece->bytes;
  if (usage_) usage_->gave(piece->bytes);
  if (ready(*piece))
    make_free(piece);
  else
    waiting_.push_back(piece);
}

bool CachingPool::used_on(void* data, void* stream) {
  const std::scoped_lock lock(mutex_);
  const auto it = pieces_.upper_bound(data);  // data may lie inside a piece
  if (it == pieces_.begin()) return false;
  Piece& piece = *std::prev(it)->second;
  if (static_cast<char*>(data) >= piece.data + piece.bytes || piece.free) return false;
  if (piece.stream == stream && stream) return true;
  // keeps the list of a long-lived piece short
  std::erase_if(piece.marks, [&](void* mark) {
    const bool passed = system_.passed(mark);
    if (passed) system_.drop(mark);
    return passed;
  });
  piece.marks.push_back(system_.mark(stream));
  return true;
}

bool CachingPool::ready(Piece& piece) {
  while (!piece.marks.empty() && system_.passed(piece.marks.back())) {
    system_.drop(piece.marks.back());
    piece.marks.pop_back();
  }
  return piece.marks.empty();
}

void CachingPool::collect() {
  std::erase_if(waiting_, [&](Piece* piece) {
    if (!ready(*piece)) return false;
    make_free(piece);
    return true;
  });
}

// Takes the piece into the free list, joined with free neighbours; `cached` counts it already.
void CachingPool::make_free(Piece* piece) {
  FreeList& list = free_[piece->stream];
  piece->free = true;
  if (Piece* left = piece->before; left && left->free) {
    list.erase(left);
    piece = join(left, piece);
  }
  if (Piece* right = piece->after; right && right->free) {
    list.erase(right);
    piece = join(piece, right);
  }
  list.insert(piece);
}

CachingPool::Piece* CachingPool::join(Piece* left, Piece* right) {
  left->bytes += right->bytes;
  left->after = right->after;
  if (right->after) right->after->before = left;
  pieces_.erase(right->data);
  return left;
}

void CachingPool::release() {
  const std::scoped_lock lock(mutex_);
  collect();
  release_locked();
}
void CachingPool::release_locked() {
  if (cache_ == Cache::kept) return;
  for (auto& [stream, list] : free_)
    for (auto it = list.begin(); it != list.end();) {
      Piece* const piece = *it;
      if (piece->before || piece->after) {  // part of a segment that is still in use
        ++it;
        continue;
      }
      it = list.erase(it);
      stats_.cached -= piece->bytes;
      system_.free(piece->data);
      pieces_.erase(piece->data);
    }
}

std::size_t CachingPool::size_of(void* data) const {
  const std::scoped_lock lock(mutex_);
  return pieces_.at(data)->bytes;
}
MemoryStats CachingPool::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}
std::size_t CachingPool::largest_free() const {
  const std::scoped_lock lock(mutex_);
  std::size_t largest = 0;
  for (const auto& [stream, list] : free_)
    if (!list.empty()) largest = std::max(largest, (*list.rbegin())->bytes);
  return largest;
}
}  // namespace gossamer::cuda
