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

// Keys 0 … count - 1 are seen by query i of batch entry b.
GOSSAMER_HD inline i64 keys_seen(i64 keys, bool causal, i64 first, const std::int32_t* lengths,
                                 i64 b, i64 i) {
  i64 count = keys;
  if (lengths && lengths[b] < count) count = lengths[b] < 0 ? 0 : lengths[b];
  if (causal && first + i + 1 < count) count = first + i + 1;
  return count;
}

}  // namespace gossamer
