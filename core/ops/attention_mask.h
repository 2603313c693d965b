// Which weights of an attention dropout keeps, and which keys a query sees: the same for every
// device and every order of computation.
#pragma once

#include "gossamer/core/backend.h"
#include "gossamer/core/random.h"

namespace gossamer {

// The weight of query i and key j in head `head` = b H + h is kept if to_unit(word) is at least the
// probability. 64 queries of a key take 16 calls: vectors of 16 queries then need no
// exchange between lanes.
struct AttentionDropout {
  Philox random;
  const i64* number;  // of the stream
  i64 queries, keys;

  GOSSAMER_HD std::uint64_t stream() const { return static_cast<std::uint64_t>(*number); }
  GOSSAMER_HD std::uint64_t counter(i64 head, i64 i, i64 j) const {
    const i64 groups = (queries + 63) / 64;
    return static_cast<std::uint64_t>(((head * groups + i / 64) * keys + j) * 16 + i % 16);
  }
  GOSSAMER_HD std::uint32_t word(i64 head, i64 i, i64 j) const {
    return random(counter(head, i, j), stream()).v[i / 16 % 4];
  }
};

inline AttentionDropout dropout_of(const Attention& a) {
  return {Philox(a.seed), a.dropout > 0 ? a.stream.as<i64>() : nullptr, a.queries, a.keys};
}

// Keys begin … end - 1; none if begin is not below end.
struct KeyRange {
  i64 begin, end;
};
// The keys that a query sees. Neither end of the range falls from a query to the next one.
struct KeysSeen {
  i64 queries, keys, first, window;
  bool causal;
  const std::int32_t *lengths, *begins;  // null: all keys exist; all documents begin at 0

  GOSSAMER_HD KeyRange of(i64 b, i64 i) const {
    KeyRange range{0, keys};
    if (lengths && lengths[b] < range.end) range.end = lengths[b] < 0 ? 0 : lengths[b];
    if (causal && first + i + 1 < range.end) range.end = first + i + 1;
    if (window > 0 && first + i + 1 > window) range.begin = first + i + 1 - window;
    if (begins && begins[b * queries + i] > range.begin) range.begin = begins[b * queries + i];
    if (range.begin > range.end) range.begin = range.end;
    return range;
  }
};

inline KeysSeen keys_seen(const Attention& a) {
  const auto pointer = [](const Tensor& t) { return t.defined() ? t.as<std::int32_t>() : nullptr; };
  return {a.queries, a.keys, a.first, a.window, a.causal, pointer(a.lengths), pointer(a.begins)};
}

}  // namespace gossamer
