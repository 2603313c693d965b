// Encoding and decoding by six rules.
#include "gossamer/dist/compressor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/coding.h"

namespace gossamer::dist {
namespace {

constexpr i64 kBlock = kInt8Block;
constexpr i64 kChunk = 4096;
constexpr int kPlaceBits = 12;  // of a place in a chunk

template <class T>
T load(std::span<const char> from, i64 at) {
  T out;
  std::memcpy(&out, from.data() + at * i64{sizeof(T)}, sizeof out);
  return out;
}
template <class T>
void store(std::span<char> to, i64 at, T value) {
  std::memcpy(to.data() + at * i64{sizeof(T)}, &value, sizeof value);
}

// |x| as a whole number: larger where |x| is larger.
template <class T>
using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T>
Word<T> magnitude(T x) {
  return std::bit_cast<Word<T>>(x) & (~Word<T>{0} >> 1);
}

template <class T>
constexpr int kExponentBits = sizeof(T) == 4 ? 8 : 11;
constexpr int kFractionBits = 4;  // that are counted of a long vector

// The places of the k largest |v|, ascending. Two passes over v: how many have which first bits;
// then those that may be among the k, which are sorted out exactly.
template <int kFirst, class T>
std::vector<std::uint32_t> largest(std::span<const T> v, i64 k) {
  constexpr int kShift = static_cast<int>(8 * sizeof(T)) - 1 - kFirst;
  constexpr std::size_t kBuckets = std::size_t{1} << kFirst, kLanes = 4;
  // Four counts in turn: equal neighbours would wait for each other.
  std::vector<std::array<std::uint32_t, kLanes>> count(kBuckets);
  const std::size_t n = v.size();
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      ++count[static_cast<std::size_t>(magnitude(v[i + lane]) >> kShift)][lane];
  for (; i < n; ++i) ++count[static_cast<std::size_t>(magnitude(v[i]) >> kShift)][0];
  std::size_t bucket = kBuckets;
  i64 found = 0;
  while (bucket > 0 && found < k)
    for (const std::uint32_t each : count[--bucket]) found += each;
  const Word<T> least = static_cast<Word<T>>(bucket) << kShift;

  struct Place {
    Word<T> size;
    std::uint32_t at;
  };
  std::vector<Place> places, edge;  // edge: in the last bucket, of which not all are among the k
  const Word<T> sure = static_cast<Word<T>>(bucket + 1) << kShift;
  places.reserve(static_cast<std::size_t>(found));
  constexpr std::size_t kRow = 32;  // of these the largest is looked at first
  for (std::size_t row = 0; row < n; row += kRow) {
    const std::size_t end = std::min(n, row + kRow);
    Word<T> most = 0;
    for (std::size_t j = row; j < end; ++j) most = std::max(most, magnitude(v[j]));
    if (most < least) continue;
    for (std::size_t j = row; j < end; ++j) {
      const Word<T> size = magnitude(v[j]);
      if (size < least) continue;
      places.push_back({size, static_cast<std::uint32_t>(j)});
      if (size < sure) edge.push_back(places.back());
    }
  }
  const auto before = [](const Place& a, const Place& b) {
    return a.size != b.size ? a.size > b.size : a.at < b.at;
  };
  // found - k of the edge are too many, so at least one is among the k
  const auto last = edge.end() - 1 - static_cast<std::ptrdiff_t>(found - k);
  std::nth_element(edge.begin(), last, edge.end(), before);
  std::vector<std::uint32_t> out;
  out.reserve(static_cast<std::size_t>(k));
  for (const Place& p : places)
    if (!before(*last, p)) out.push_back(p.at);
  return out;
}

// In eight parts: one would wait for each addition.
template <class T, class F>
double sum_over(std::span<const T> v, F f) {
  std::array<double, 8> parts{};
  std::size_t i = 0;
  for (; i + parts.size() <= v.size(); i += parts.size())
    for (std::size_t lane = 0; lane < parts.size(); ++lane)
      parts[lane] += f(static_cast<double>(v[i + lane]));
  for (; i < v.size(); ++i) parts[0] += f(static_cast<double>(v[i]));
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

// Words of so many bits, one after the other, the first in the lowest bits.
constexpr i64 kPart = 256;  // of them at a time: whole bytes with any number of bits
template <class W>
char* pack(std::span<const W> words, int bits, char* to) {
  std::uint32_t held = 0;
  int filled = 0;
  for (const W word : words) {
    held |= static_cast<std::uint32_t>(word) << filled;
    for (filled += bits; filled >= 8; filled -= 8, held >>= 8)
      *to++ = static_cast<char>(held & 0xffu);
  }
  if (filled > 0) *to++ = static_cast<char>(held & 0xffu);
  return to;
}
template <class W>
const char* unpack(const char* from, int bits, std::span<W> words) {
  std::uint32_t held = 0;
  int filled = 0;
  for (W& word : words) {
    for (; filled < bits; filled += 8)
      held |= static_cast<std::uint32_t>(static_cast<unsigned char>(*from++)) << filled;
    word = static_cast<W>(held & ((1u << bits) - 1));
    held >>= bits, filled -= bits;
  }
  return from;
}

// x with the sign turned if turned is 1
template <class T>
T turned(T x, std::uint32_t turned) {
  return std::bit_cast<T>(std::bit_cast<Word<T>>(x) ^
                          (static_cast<Word<T>>(turned) << (8 * sizeof(T) - 1)));
}

struct Quantizer {
  double levels, factor;
  static Quantizer of(int bits, i64 n) {
    const double s = static_cast<double>((1 << (bits - 1)) - 1), d = static_cast<double>(n);
    return {s, 1 / (1 + std::min(d / (s * s), std::sqrt(d) / s))};
  }
};

// Bins of equal width, and the mean of what fell into each.
template <class T>
void quantize(std::span<const T> v, std::span<std::uint8_t> codes, std::span<T> table) {
  constexpr double kWidth = 6;  // of all bins, in standard deviations
  const auto n = static_cast<double>(v.size()), bins = static_cast<double>(table.size());
  const double shift = sum_over(v, [](double x) { return x; }) / n;
  const double squares = sum_over(v, [=](double x) { return (x - shift) * (x - shift); });
  double width = n > 1 ? kWidth * std::sqrt(squares / (n - 1)) / bins : 0;
  if (!(width > 0)) width = 1;
  std::vector<double> sum(table.size()), count(table.size());
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double c = static_cast<double>(v[i]) - shift;
    const auto bin = static_cast<std::size_t>(
        std::clamp(std::nearbyint(c / width + std::floor(bins / 2)), 0., bins - 1));
    codes[i] = static_cast<std::uint8_t>(bin);
    sum[bin] += c, ++count[bin];
  }
  for (std::size_t b = 0; b < table.size(); ++b)
    table[b] = static_cast<T>(shift + (count[b] > 0 ? sum[b] / count[b] : 0));
}

}  // namespace

std::vector<std::string> CompressorOptions::names() {
  return {"top-k", "random-k", "sign", "qsgd", "int8", "chunk-top-k"};
}

CompressorOptions CompressorOptions::usually(const std::string& name) const {
  CompressorOptions out = *this;
  if (compressor == "auto") out.compressor = name;
  return out;
}

Compressor::Compressor(const CompressorOptions& o, std::uint64_t seed)
    : kind_(),
      share_(o.compressed_share.value_or(o.compressor == "chunk-top-k" ? 1. / 32 : .1)),
      bits_(static_cast<int>(o.compressed_bits.value_or(o.compressor == "chunk-top-k" ? 2 : 4))),
      seed_(seed) {
  const std::vector<std::string> names = CompressorOptions::names();
  const auto found = std::ranges::find(names, o.compressor);
  check<ConfigError>(found != names.end(), "compressor \"", o.compressor, "\" is unknown");
  check<ConfigError>(share_ > 0 && share_ <= 1, "compressed_share ", share_,
                     "; it must be above 0, at most 1");
  check<ConfigError>(bits_ >= 2 && bits_ <= 8, "compressed_bits ", bits_, "; they must be 2 to 8");
  kind_ = static_cast<Kind>(found - names.begin());
}

i64 Compressor::kept(i64 n) const {
  return std::clamp<i64>(static_cast<i64>(share_ * static_cast<double>(n) + 1e-9),
                         std::min<i64>(1, n), n);
}

i64 Compressor::kept_of_chunks(i64 n) const { return n / kChunk * kept(kChunk) + kept(n % kChunk); }

i64 Compressor::place(i64 i, i64 k, i64 n, std::uint64_t counter) const {
  const i64 begin = i * n / k, end = (i + 1) * n / k;
  const Philox::Four four = Philox(seed_)(static_cast<std::uint64_t>(i / 4), counter);
  const std::uint64_t word = four.v[i % 4];
  return begin + static_cast<i64>(word * static_cast<std::uint64_t>(end - begin) >> 32);
}

template <class T>
i64 Compressor::bytes(i64 n) const {
  constexpr i64 value = sizeof(T);
  if (n == 0) return 0;
  switch (kind_) {
    case Kind::top_k:
      return kept(n) * (value + 4);
    case Kind::random_k:
      return kept(n) * value;
    case Kind::sign:
      return value + (n + 7) / 8;
    case Kind::qsgd:
      return value + (n * bits_ + 7) / 8;
    case Kind::int8:
      return (n + kBlock - 1) / kBlock * value + n;
    case Kind::chunk_top_k:
      break;
  }
  const i64 each = kept_of_chunks(n);
  return (i64{1} << bits_) * value + (each * bits_ + 7) / 8 + (each * kPlaceBits + 7) / 8;
}

template <class T>
void Compressor::encode(std::span<const T> v, std::uint64_t counter, std::span<char> code) const {
  const i64 n = std::ssize(v), k = kept(n);
  check<ShapeError>(std::ssize(code) == bytes<T>(n), "encode: ", code.size(), " bytes for ", n,
                    " values; wanted ", bytes<T>(n));
  if (n == 0) return;
  switch (kind_) {
    case Kind::top_k: {
      const std::vector<std::uint32_t> places = largest<kExponentBits<T> + kFractionBits>(v, k);
      const std::span<char> indices = code.subspan(static_cast<std::size_t>(k) * sizeof(T));
      for (std::size_t i = 0; i < places.size(); ++i) {
        store(code, static_cast<i64>(i), v[places[i]]);
        store(indices, static_cast<i64>(i), places[i]);
      }
      return;
    }
    case Kind::random_k:
      for (i64 i = 0; i < k; ++i)
        store(code, i, v[static_cast<std::size_t>(place(i, k, n, counter))]);
      return;
    case Kind::sign: {
      const double sum = sum_over(v, [](double x) { return std::abs(x); });
      store(code, 0, static_cast<T>(sum / static_cast<double>(n)));
      char* bits = code.data() + sizeof(T);
      for (i64 i = 0; i < n; i += 8) {
        unsigned byte = 0;
        for (i64 j = i; j < std::min(n, i + 8); ++j)
          byte |= (v[static_cast<std::size_t>(j)] < 0 ? 1u : 0u) << (j - i);
        bits[i / 8] = static_cast<char>(byte);
      }
      return;
    }
    case Kind::qsgd: {
      const T norm = static_cast<T>(std::sqrt(sum_over(v, [](double x) { return x * x; })));
      store(code, 0, norm);
      const T levels = static_cast<T>(Quantizer::of(bits_, n).levels);
      const T by = norm > 0 ? levels / norm : 0;
      char* to = code.data() + sizeof(T);
      std::array<std::uint8_t, kPart> words;
      for (i64 begin = 0; begin < n; begin += kPart) {
        const auto size = static_cast<std::size_t>(std::min(kPart, n - begin));
        const T* from = v.data() + begin;
        for (std::size_t i = 0; i < size; ++i) {
          const T level = std::min(levels, std::nearbyint(std::abs(from[i]) * by));
          words[i] = static_cast<std::uint8_t>(static_cast<int>(level) * 2 + (from[i] < 0 ? 1 : 0));
        }
        to = pack<std::uint8_t>({words.data(), size}, bits_, to);
      }
      return;
    }
    case Kind::int8: {
      const i64 blocks = (n + kBlock - 1) / kBlock;
      char* values = code.data() + blocks * i64{sizeof(T)};
      for (i64 b = 0; b < blocks; ++b) {
        const i64 begin = b * kBlock, end = std::min(n, begin + kBlock);
        T most = 0;
        for (i64 i = begin; i < end; ++i)
          most = std::max(most, std::abs(v[static_cast<std::size_t>(i)]));
        const T scale = most / 127;
        // too small to divide by: they travel as zeros
        const T by = scale >= std::numeric_limits<T>::min() ? 1 / scale : 0;
        store(code, b, scale);
        for (i64 i = begin; i < end; ++i)
          values[i] = static_cast<char>(
              static_cast<std::int8_t>(std::nearbyint(v[static_cast<std::size_t>(i)] * by)));
      }
      return;
    }
    case Kind::chunk_top_k: {
      const auto all = static_cast<std::size_t>(kept_of_chunks(n));
      std::vector<T> values, table(std::size_t{1} << bits_);
      std::vector<std::uint16_t> places;
      values.reserve(all), places.reserve(all);
      for (i64 begin = 0; begin < n; begin += kChunk) {
        const i64 size = std::min(kChunk, n - begin);
        const auto chunk =
            v.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
        for (const std::uint32_t at : largest<kExponentBits<T>>(chunk, kept(size))) {
          values.push_back(chunk[at]);
          places.push_back(static_cast<std::uint16_t>(at));
        }
      }
      std::vector<std::uint8_t> codes(all);
      quantize<T>(values, codes, table);
      for (std::size_t b = 0; b < table.size(); ++b) store(code, static_cast<i64>(b), table[b]);
      char* const to = code.data() + table.size() * sizeof(T);
      pack<std::uint16_t>(places, kPlaceBits, pack<std::uint8_t>(codes, bits_, to));
      return;
    }
  }
}

template <class T>
void Compressor::decode(std::span<const char> code, std::uint64_t counter, std::span<T> q) const {
  const i64 n = std::ssize(q), k = kept(n);
  check<DistError>(std::ssize(code) == bytes<T>(n), "decode: ", code.size(), " bytes for ", n,
                   " values; wanted ", bytes<T>(n));
  if (n == 0) return;
  switch (kind_) {
    case Kind::top_k: {
      std::ranges::fill(q, T{0});
      const std::span<const char> indices = code.subspan(static_cast<std::size_t>(k) * sizeof(T));
      for (i64 i = 0; i < k; ++i) {
        const auto at = load<std::uint32_t>(indices, i);
        check<DistError>(at < q.size(), "decode: place ", at, " of ", n, " values");
        q[at] = load<T>(code, i);
      }
      return;
    }
    case Kind::random_k:
      std::ranges::fill(q, T{0});
      for (i64 i = 0; i < k; ++i)
        q[static_cast<std::size_t>(place(i, k, n, counter))] = load<T>(code, i);
      return;
    case Kind::sign: {
      const T scale = load<T>(code, 0);
      const char* bits = code.data() + sizeof(T);
      for (i64 begin = 0; begin < n; begin += 8) {
        const auto byte = static_cast<std::uint32_t>(static_cast<unsigned char>(bits[begin / 8]));
        T* to = q.data() + begin;
        for (std::uint32_t j = 0; j < static_cast<std::uint32_t>(std::min<i64>(8, n - begin)); ++j)
          to[j] = turned(scale, byte >> j & 1u);
      }
      return;
    }
    case Kind::qsgd: {
      const Quantizer by = Quantizer::of(bits_, n);
      const T unit = static_cast<T>(by.factor * static_cast<double>(load<T>(code, 0)) / by.levels);
      const char* from = code.data() + sizeof(T);
      std::array<std::uint8_t, kPart> words;
      for (i64 begin = 0; begin < n; begin += kPart) {
        const auto size = static_cast<std::size_t>(std::min(kPart, n - begin));
        from = unpack<std::uint8_t>(from, bits_, {words.data(), size});
        T* to = q.data() + begin;
        for (std::size_t i = 0; i < size; ++i)
          to[i] = turned(static_cast<T>(words[i] >> 1) * unit, words[i] & 1u);
      }
      return;
    }
    case Kind::int8: {
      const i64 blocks = (n + kBlock - 1) / kBlock;
      const char* values = code.data() + blocks * i64{sizeof(T)};
      for (i64 i = 0; i < n; ++i)
        q[static_cast<std::size_t>(i)] =
            static_cast<T>(static_cast<std::int8_t>(values[i])) * load<T>(code, i / kBlock);
      return;
    }
    case Kind::chunk_top_k: {
      std::ranges::fill(q, T{0});
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(kept_of_chunks(n)));
      std::vector<std::uint16_t> places(codes.size());
      const char* from = code.data() + (sizeof(T) << bits_);
      from = unpack<std::uint8_t>(from, bits_, codes);
      unpack<std::uint16_t>(from, kPlaceBits, places);
      std::size_t next = 0;
      for (i64 begin = 0; begin < n; begin += kChunk) {
        const i64 size = std::min(kChunk, n - begin);
        for (i64 i = kept(size); i > 0; --i, ++next) {
          check<DistError>(places[next] < size, "decode: place ", begin + places[next], " of ", n,
                           " values");
          q[static_cast<std::size_t>(begin + places[next])] = load<T>(code, codes[next]);
        }
      }
      return;
    }
  }
}

template i64 Compressor::bytes<float>(i64) const;
template i64 Compressor::bytes<double>(i64) const;
template void Compressor::encode(std::span<const float>, std::uint64_t, std::span<char>) const;
template void Compressor::encode(std::span<const double>, std::uint64_t, std::span<char>) const;
template void Compressor::decode(std::span<const char>, std::uint64_t, std::span<float>) const;
template void Compressor::decode(std::span<const char>, std::uint64_t, std::span<double>) const;

}  // namespace gossamer::dist
