// Both tables are open: a search begins at the key's hash and goes on until a free place.
#include "gossamer/data/text/merges.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "gossamer/data/hash.h"
#include "gossamer/data/mix.h"

namespace gossamer::data {
namespace {

std::uint64_t hash_of(std::int32_t left, std::int32_t right) {
  return mix(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right));
}

std::uint64_t hash_of(std::string_view word) { return xxh3(std::as_bytes(std::span(word))); }

}  // namespace

void Merges::grow() {
  std::vector<Merge> old(std::max<std::size_t>(64, table_.size() * 2));
  std::swap(old, table_);
  for (const Merge& merge : old) {
    if (merge.left < 0) continue;
    std::size_t at = hash_of(merge.left, merge.right);
    while (table_[at & (table_.size() - 1)].left >= 0) ++at;
    table_[at & (table_.size() - 1)] = merge;
  }
}

bool Merges::add(std::int32_t left, std::int32_t right, std::int32_t result) {
  if (2 * static_cast<std::size_t>(places_) >= table_.size()) grow();
  for (std::size_t at = hash_of(left, right);; ++at) {
    Merge& merge = table_[at & (table_.size() - 1)];
    const bool fresh = merge.left < 0;
    if (!fresh && (merge.left != left || merge.right != right)) continue;
    merge = {left, right, count_++, result};
    places_ += fresh;
    return fresh;
  }
}

const Merges::Merge* Merges::find(std::int32_t left, std::int32_t right) const {
  if (table_.empty()) return nullptr;
  for (std::size_t at = hash_of(left, right);; ++at) {
    const Merge& merge = table_[at & (table_.size() - 1)];
    if (merge.left < 0) return nullptr;
    if (merge.left == left && merge.right == right) return &merge;
  }
}

void Merges::merge(PieceInHand& hand, std::vector<std::int32_t>& ids) const {
  constexpr std::size_t kFew = 48;  // symbols; then a heap is faster than a look at all
  if (hand.symbols_.size() <= kFew)
    merge_few(hand, ids);
  else
    merge_many(hand, ids);
}

void Merges::merge_few(PieceInHand& hand, std::vector<std::int32_t>& ids) const {
  auto& symbols = hand.symbols_;
  auto& next = hand.next_;
  constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
  std::size_t n = symbols.size();
  const auto look = [&](std::size_t i) {
    const Merge* const merge = i + 1 < n ? find(symbols[i], symbols[i + 1]) : nullptr;
    next[i] = merge ? PieceInHand::Next{merge->rank, merge->result} : PieceInHand::Next{kNever, 0};
  };
  next.resize(n);
  for (std::size_t i = 0; i < n; ++i) look(i);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i)
      if (next[i].rank < next[best].rank) best = i;
    if (next[best].rank == kNever) break;
    symbols[best] = next[best].result;
    --n;
    std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              symbols.begin() + static_cast<std::ptrdiff_t>(n) + 1,
              symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(next.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              next.begin() + static_cast<std::ptrdiff_t>(n) + 1,
              next.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    look(best);
    if (best > 0) look(best - 1);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(n));
}

void Merges::merge_many(PieceInHand& hand, std::vector<std::int32_t>& ids) const {
  auto& parts = hand.parts_;
  auto& heap = hand.heap_;
  const auto later = [](const PieceInHand::Pair& a, const PieceInHand::Pair& b) {
    return std::pair(a.rank, a.at) > std::pair(b.rank, b.at);
  };
  const auto offer = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const std::int32_t a = parts[static_cast<std::size_t>(left)].id,
                       b = parts[static_cast<std::size_t>(right)].id;
    if (const Merge* merge = find(a, b)) {
      heap.push_back({merge->rank, left, a, b});
      std::push_heap(heap.begin(), heap.end(), later);
    }
  };
  const auto n = static_cast<std::int32_t>(hand.symbols_.size());
  parts.clear();
  heap.clear();
  for (std::int32_t i = 0; i < n; ++i)
    parts.push_back({hand.symbols_[static_cast<std::size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1});
  for (std::int32_t i = 0; i + 1 < n; ++i) offer(i, i + 1);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const PieceInHand::Pair pair = heap.back();
    heap.pop_back();
    PieceInHand::Part& left = parts[static_cast<std::size_t>(pair.at)];
    if (left.id != pair.left || left.next < 0) continue;
    PieceInHand::Part& right = parts[static_cast<std::size_t>(left.next)];
    if (right.id != pair.right) continue;  // one of the two was merged with another
    left.id = find(pair.left, pair.right)->result;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) parts[static_cast<std::size_t>(left.next)].previous = pair.at;
    offer(left.previous, pair.at);
    offer(pair.at, left.next);
  }
  for (std::int32_t i = n ? 0 : -1; i >= 0; i = parts[static_cast<std::size_t>(i)].next)
    ids.push_back(parts[static_cast<std::size_t>(i)].id);
}

void WholeWords::place(const Entry& entry) {
  std::size_t at = entry.hash;
  while (table_[at & (table_.size() - 1)].length) ++at;
  table_[at & (table_.size() - 1)] = entry;
}

void WholeWords::add(std::string_view word, std::int32_t id) {
  if (2 * count_ >= table_.size()) {
    std::vector<Entry> old(std::max<std::size_t>(64, table_.size() * 2));
    std::swap(old, table_);
    for (const Entry& entry : old)
      if (entry.length) place(entry);
  }
  place({hash_of(word), static_cast<std::uint32_t>(bytes_.size()),
         static_cast<std::uint32_t>(word.size()), id});
  bytes_ += word;
  ++count_;
}

std::int32_t WholeWords::find(std::string_view word) const {
  if (table_.empty()) return -1;
  const std::uint64_t hash = hash_of(word);
  for (std::size_t at = hash;; ++at) {
    const Entry& entry = table_[at & (table_.size() - 1)];
    if (!entry.length) return -1;
    if (entry.hash == hash && entry.length == word.size() &&
        std::memcmp(bytes_.data() + entry.offset, word.data(), word.size()) == 0)
      return entry.id;
  }
}

}  // namespace gossamer::data
