// What methods that send a part of a vector let through: Q(v), as bytes that both sides decode by
// the same function, so that what a worker keeps of another has the same bits as that one has of
// itself. T is float, or double for the simulator and tests.
//   top-k     the k = max(1, share n) largest of n, of equal ones those that come first: value and
//             index
//   random-k  one of each of k equal stretches, drawn from (seed, counter): values alone
//   sign      mean |v| with the sign of each; 0 counts as above 0
//   qsgd      |v| (the norm) times one of 2^(bits-1) levels with a sign, rounded to the nearest,
//             and times 1/(1 + min(n/s^2, sqrt(n)/s)), s = 2^(bits-1) - 1 the highest level: so
//             Q(v) is no longer than v (Alistarh et al. 2017; Koloskova et al. 2019)
//   int8      as dist/coding.h, without an error that is kept: here the replica keeps it
//   chunk-top-k  top-k of each stretch of 4,096 by itself: a place takes 12 bits, a value
//             compressed_bits: b bins of equal width around the mean of all values that travel, six
//             standard deviations wide together, and a table with the mean of each (SparseLoCo,
//             Sarfi et al. 2025, and its authors' code)
// Pure.
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::dist {

struct CompressorOptions {
  std::string compressor = "auto";  // what the method usually takes
  // Of the values: what travels, above 0, at most 1; none: .1, chunk-top-k 1/32.
  std::optional<double> compressed_share{};
  std::optional<i64> compressed_bits{};  // of a value, 2 to 8; none: 4, chunk-top-k 2

  static std::vector<std::string> names();                   // without auto
  CompressorOptions usually(const std::string& name) const;  // with this one for auto
};

class Compressor {
 public:
  // ConfigError: what is wrong with the options
  Compressor(const CompressorOptions&, std::uint64_t seed);
  // of n values
  template <class T>
  i64 bytes(i64 n) const;
  // code [bytes(n)] <- Q(v). v must be finite. All who encode or decode one vector take the same
  // counter.
  template <class T>
  void encode(std::span<const T> v, std::uint64_t counter, std::span<char> code) const;
  // q [n] <- what the code stands for. DistError: it is none, because it names a place beyond n.
  template <class T>
  void decode(std::span<const char> code, std::uint64_t counter, std::span<T> q) const;

 private:
  enum class Kind : std::uint8_t { top_k, random_k, sign, qsgd, int8, chunk_top_k };
  i64 kept(i64 n) const;            // k
  i64 kept_of_chunks(i64 n) const;  // the k of all
  template <class F>
  void each_place(i64 n, std::uint64_t counter, F f) const;  // of random-k: f(i, place)

  Kind kind_;
  double share_;
  int bits_;
  std::uint64_t seed_;
};

}  // namespace gossamer::dist
