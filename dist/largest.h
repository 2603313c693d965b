// The k largest |v|, as fast as memory: a sample says between which magnitudes the k-th is; one
// pass over v counts what is above and gathers the few between, of which the k-th is found exactly;
// the second pass takes the k. If the sample was wrong, the few are all. T is float or double.
// Pure.
// Threads: any.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::dist {

// |x| as a whole number: larger where |x| is larger.
template <class T>
using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T>
Word<T> magnitude(T x) {
  return std::bit_cast<Word<T>>(x) & (~Word<T>{0} >> 1);
}

namespace largest {

// f(place) for each value whose magnitude is at least `least` and below least + width, in their
// order. Bit by bit of a mask: a branch for each value would often be foreseen wrongly.
template <class T, class F>
void each_between(std::span<const T> v, Word<T> least, Word<T> width, F f) {
  constexpr std::size_t kHalf = 32;  // compilers make masks of 32 bits by vectors
  const auto is_between = [=](T x) { return magnitude(x) - least < width; };
  const auto mask_of = [&](const T* from) {
    std::uint32_t mask = 0;
    for (std::size_t j = 0; j < kHalf; ++j)
      mask |= static_cast<std::uint32_t>(is_between(from[j])) << j;
    return std::uint64_t{mask};
  };
  std::size_t i = 0;
  for (; i + 2 * kHalf <= v.size(); i += 2 * kHalf)
    for (std::uint64_t mask = mask_of(&v[i]) | mask_of(&v[i + kHalf]) << kHalf; mask != 0;
         mask &= mask - 1)
      f(i + static_cast<std::size_t>(std::countr_zero(mask)));
  for (; i < v.size(); ++i)
    if (is_between(v[i])) f(i);
}

// at most 2^32 - 1 values
template <class T>
i64 count_from(std::span<const T> v, Word<T> least) {
  std::uint32_t count = 0;
  for (const T x : v) count += magnitude(x) >= least ? 1 : 0;
  return count;
}

// The least of the k largest, and how many of those that equal it are among the k.
template <class W>
struct Least {
  W size;
  i64 equal;
};

// Bits by bits: how many have which of those in which they differ, then those alone that have the
// bits of the k-th.
template <class W>
Least<W> kth_largest(std::vector<W> all, i64 k) {
  constexpr std::size_t kFew = 32;
  constexpr int kBits = 7;
  while (all.size() > kFew) {
    W least = ~W{0}, most = 0;
    for (const W x : all) least = std::min(least, x), most = std::max(most, x);
    const int shift = std::max(0, static_cast<int>(std::bit_width(most - least)) - kBits);
    std::array<std::uint32_t, std::size_t{1} << kBits> count{};
    for (const W x : all) ++count[static_cast<std::size_t>((x - least) >> shift)];
    std::size_t bucket = count.size() - 1;
    for (; k > count[bucket]; --bucket) k -= count[bucket];
    const W from = least + (static_cast<W>(bucket) << shift);
    if (shift == 0) return {from, k};
    std::size_t kept = 0;
    for (const W x : all) {
      all[kept] = x;
      kept += (x - from) >> shift == 0 ? 1 : 0;
    }
    all.resize(kept);
  }
  const auto at = all.begin() + (k - 1);
  std::nth_element(all.begin(), at, all.end(), std::greater<>());
  return {*at, 1 + std::count(all.begin(), at, *at)};
}

// Magnitudes between which the k-th largest is: [least, end).
template <class T>
struct Bracket {
  Word<T> least = 0, end = ~Word<T>{0};
};
template <class T>
Bracket<T> guess(std::span<const T> v, i64 k) {
  constexpr std::size_t kFew = 512, kPart = 16, kMost = 8192;
  Bracket<T> out;
  if (v.size() <= kFew) return out;
  std::vector<Word<T>> sample(std::min(v.size() / kPart, kMost));
  const std::size_t stretch = v.size() / sample.size();  // one of each
  std::uint32_t draw = 1;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    draw = draw * 1664525 + 1013904223;  // what is drawn changes nothing but the time
    const auto at = static_cast<std::size_t>(std::uint64_t{draw} * stretch >> 32);
    sample[i] = magnitude(v[i * stretch + at]);
  }
  // As many of them as are expected among the k, give or take three standard deviations.
  const auto size = static_cast<double>(sample.size());
  const double mean = size * static_cast<double>(k) / static_cast<double>(v.size());
  const double spread = 3 * std::sqrt(mean) + 2;
  const auto kth = [&](double at) { return kth_largest(sample, static_cast<i64>(at)).size; };
  if (mean + spread < size) out.least = kth(mean + spread);
  if (mean - spread >= 1) out.end = kth(mean - spread) + 1;
  return out;
}

template <class T>
Least<Word<T>> least_of_largest(std::span<const T> v, i64 k) {
  constexpr std::size_t kPiece = 4096;  // in the first-level cache
  std::vector<Word<T>> edge;
  edge.reserve(static_cast<std::size_t>(k));
  for (Bracket<T> in = guess(v, k);; in = {}) {
    const bool all_equal = in.end - in.least == 1, open = in.end > ~Word<T>{0} >> 1;
    i64 above = 0, between = 0;
    edge.clear();
    for (std::size_t begin = 0; begin < v.size(); begin += kPiece) {
      const auto piece = v.subspan(begin, std::min(kPiece, v.size() - begin));
      const i64 beyond = open ? 0 : count_from(piece, in.end);
      above += beyond;
      if (all_equal) {
        between += count_from(piece, in.least) - beyond;
        continue;
      }
      each_between(piece, in.least, in.end - in.least,
                   [&](std::size_t place) { edge.push_back(magnitude(piece[place])); });
    }
    between += std::ssize(edge);
    if (above >= k || above + between < k) continue;
    if (all_equal) return {in.least, k - above};
    return kth_largest(std::move(edge), k - above);
  }
}

}  // namespace largest

// put(place) for each of the k largest |v|, in the order of v; of equal ones the first are taken.
template <class T, class F>
void each_of_largest(std::span<const T> v, i64 k, F put) {
  largest::Least<Word<T>> least = largest::least_of_largest(v, k);
  largest::each_between(v, least.size, ~least.size, [&](std::size_t place) {
    if (magnitude(v[place]) > least.size || least.equal-- > 0) put(place);
  });
}

}  // namespace gossamer::dist
