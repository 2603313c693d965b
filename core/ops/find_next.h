// find_next: for each position of a list of ids, the next one with the same id. It links the rows
// of an embedding's gradient that belong to one id.
#pragma once

#include <cstdint>

#include "gossamer/core/ops/eight.h"
#include "gossamer/core/ops/grid.h"

namespace gossamer {

inline constexpr std::int32_t kFirst = -1, kLast = -1;  // none before it, none after it

namespace detail {
// On a CPU: one call for each position.
struct FindNext {
  const std::int32_t* ids;
  i64 n;
  std::int32_t* next;
  GOSSAMER_HD void operator()(i64 i) const {
    const std::int32_t id = ids[i];
    i64 j = i + 1;
    while (j < n && ids[j] != id) ++j;
    next[i] = j < n ? static_cast<std::int32_t>(j) : kLast;
  }
};
// On a GPU: block i looks for the id of position i, 2,048 positions at a time.
struct FindNextInBlocks {
  static constexpr int threads = 256, phases = 3, each = 8, few = 16;
  static constexpr std::uint32_t none = 0xffffffffu;  // kLast, and larger than any position
  struct Shared {
    std::uint32_t found[threads], joined[few];
  };
  struct State {
    i64 chunk = 0;
    bool done = false;
  };
  const std::int32_t* ids;
  i64 n;
  std::int32_t* next;

  GOSSAMER_HD static std::uint32_t least(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }
  GOSSAMER_HD i64 begin(i64 i, i64 chunk) const { return i + 1 + chunk * each * threads; }
  template <int phase>
  GOSSAMER_HD void run(i64 i, int t, Shared& shared, State& state) const {
    if constexpr (phase == 0) {
      std::int32_t there[each];
      GOSSAMER_UNROLL
      for (int k = 0; k < each; ++k) {
        const i64 j = begin(i, state.chunk) + k * threads + t;
        there[k] = ids[j < n ? j : i];  // past the end: any id, which is then not compared
      }
      std::uint32_t first = none;
      GOSSAMER_UNROLL
      for (int k = 0; k < each; ++k) {
        const i64 j = begin(i, state.chunk) + k * threads + t;
        first = least(first, j < n && there[k] == ids[i] ? static_cast<std::uint32_t>(j) : none);
      }
      shared.found[t] = first;
    } else if constexpr (phase == 1) {
      if (t >= few) return;
      std::uint32_t first = none;
      for (int k = t; k < threads; k += few) first = least(first, shared.found[k]);
      shared.joined[t] = first;
    } else {
      std::uint32_t first = none;
      for (int k = 0; k < few; ++k) first = least(first, shared.joined[k]);
      ++state.chunk;
      state.done = first != none || begin(i, state.chunk) >= n;
      if (state.done && t == 0) next[i] = static_cast<std::int32_t>(first);
    }
  }
  GOSSAMER_HD bool again(i64, const Shared&, const State& state) const { return !state.done; }
};
}  // namespace detail

// next[i]: that position, or kLast. n at most 2^31 - 1.
inline void find_next(Device device, const std::int32_t* ids, i64 n, std::int32_t* next) {
  if (device.is_cpu())
    for_each(device, n, detail::FindNext{ids, n, next}, 256);
  else
    for_each_block(device, n, detail::FindNextInBlocks{ids, n, next});
}

}  // namespace gossamer
