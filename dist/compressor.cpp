// Encoding and decoding by six rules.
#include "gossamer/dist/compressor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/coding.h"
#include "gossamer/dist/largest.h"

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

// Words of so many bits, one after the other, the first in the lowest bits: by groups, which are
// whole bytes, eight at most.
static_assert(std::endian::native == std::endian::little, "groups are copied as they are");
constexpr i64 kPart = 256;  // words at a time: whole bytes with any number of bits
template <class W>
constexpr std::size_t kGroup = 8 / sizeof(W);

template <class W>
char* pack(std::span<const W> words, int bits, char* to) {
  char* const end = to + (std::ssize(words) * bits + 7) / 8;
  const auto step = static_cast<std::ptrdiff_t>(kGroup<W>) * bits / 8;
  const auto group_of = [&](std::size_t begin, std::size_t size) {
    std::uint64_t group = 0;
    for (std::size_t j = 0; j < size; ++j)
      group |= std::uint64_t{words[begin + j]} << static_cast<std::size_t>(bits) * j;
    return group;
  };
  std::size_t i = 0;
  for (; i + kGroup<W> <= words.size() && end - to >= 8; i += kGroup<W>, to += step) {
    const std::uint64_t group = group_of(i, kGroup<W>);  // the next one overwrites its zeros
    std::memcpy(to, &group, sizeof group);
  }
  for (; to < end; i += kGroup<W>, to += step) {
    const std::uint64_t group = group_of(i, std::min(kGroup<W>, words.size() - i));
    std::memcpy(to, &group, static_cast<std::size_t>(std::min(step, end - to)));
  }
  return end;
}

template <class W>
const char* unpack(const char* from, int bits, std::span<W> words) {
  const char* const end = from + (std::ssize(words) * bits + 7) / 8;
  const auto step = static_cast<std::ptrdiff_t>(kGroup<W>) * bits / 8;
  const auto spread = [&](std::uint64_t group, std::size_t begin, std::size_t size) {
    for (std::size_t j = 0; j < size; ++j)
      words[begin + j] = static_cast<W>(group >> static_cast<std::size_t>(bits) * j &
                                        ((std::uint64_t{1} << bits) - 1));
  };
  std::uint64_t group = 0;
  std::size_t i = 0;
  for (; i + kGroup<W> <= words.size() && end - from >= 8; i += kGroup<W>, from += step) {
    std::memcpy(&group, from, sizeof group);
    spread(group, i, kGroup<W>);
  }
  for (; from < end; i += kGroup<W>, from += step) {
    std::memcpy(&group, from, static_cast<std::size_t>(std::min(step, end - from)));
    spread(group, i, std::min(kGroup<W>, words.size() - i));
  }
  return end;
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
  const double middle = std::floor(bins / 2), last = bins - 1;
  for (std::size_t i = 0; i < v.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(
        std::clamp(std::nearbyint((static_cast<double>(v[i]) - shift) / width + middle), 0., last));
  std::vector<double> sum(table.size()), count(table.size());
  for (std::size_t i = 0; i < v.size(); ++i)
    sum[codes[i]] += static_cast<double>(v[i]) - shift, ++count[codes[i]];
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

template <class F>
void Compressor::each_place(i64 n, std::uint64_t counter, F f) const {
  const i64 k = kept(n), width = n / k, more = n % k;
  i64 begin = 0, left = 0;  // where the stretch begins: i n / k, and the remainder
  for (i64 i = 0; i < k;) {
    const Philox::Four four = Philox(seed_)(static_cast<std::uint64_t>(i / 4), counter);
    for (const std::uint32_t word : four.v) {
      if (i == k) break;
      left += more;
      const i64 longer = left >= k ? 1 : 0, size = width + longer;
      left -= longer * k;
      f(i++, static_cast<std::size_t>(
                 begin + static_cast<i64>(word * static_cast<std::uint64_t>(size) >> 32)));
      begin += size;
    }
  }
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
      const std::span<char> places = code.subspan(static_cast<std::size_t>(k) * sizeof(T));
      i64 at = 0;
      each_of_largest(v, k, [&](std::size_t place) {
        store(code, at, v[place]);
        store(places, at++, static_cast<std::uint32_t>(place));
      });
      return;
    }
    case Kind::random_k:
      each_place(n, counter, [&](i64 i, std::size_t place) { store(code, i, v[place]); });
      return;
    case Kind::sign: {
      const double sum = sum_over(v, [](double x) { return std::abs(x); });
      store(code, 0, static_cast<T>(sum / static_cast<double>(n)));
      char* to = code.data() + sizeof(T);
      std::array<std::uint8_t, kPart> words;
      for (i64 begin = 0; begin < n; begin += kPart) {
        const auto size = static_cast<std::size_t>(std::min(kPart, n - begin));
        const T* from = v.data() + begin;
        for (std::size_t i = 0; i < size; ++i) words[i] = from[i] < 0 ? 1 : 0;
        to = pack<std::uint8_t>({words.data(), size}, 1, to);
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
        Word<T> most = 0;
        for (i64 i = begin; i < end; ++i)
          most = std::max(most, magnitude(v[static_cast<std::size_t>(i)]));
        const T scale = std::bit_cast<T>(most) / 127;
        // too small to divide by: they travel as zeros
        const T by = scale >= std::numeric_limits<T>::min() ? 1 / scale : 0;
        store(code, b, scale);
        std::array<std::int8_t, kBlock> rounded;  // an array of its own becomes vectors
        for (i64 i = begin; i < end; ++i)
          rounded[static_cast<std::size_t>(i - begin)] =
              static_cast<std::int8_t>(std::nearbyint(v[static_cast<std::size_t>(i)] * by));
        std::memcpy(values + begin, rounded.data(), static_cast<std::size_t>(end - begin));
      }
      return;
    }
    case Kind::chunk_top_k: {
      const auto all = static_cast<std::size_t>(kept_of_chunks(n));
      std::vector<T> values(all), table(std::size_t{1} << bits_);
      std::vector<std::uint16_t> places(all);
      std::size_t at = 0;
      for (i64 begin = 0; begin < n; begin += kChunk) {
        const i64 size = std::min(kChunk, n - begin);
        const auto chunk =
            v.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
        each_of_largest(chunk, kept(size), [&](std::size_t place) {
          values[at] = chunk[place];
          places[at++] = static_cast<std::uint16_t>(place);
        });
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
      each_place(n, counter, [&](i64 i, std::size_t place) { q[place] = load<T>(code, i); });
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
      for (i64 b = 0; b < blocks; ++b) {
        const T scale = load<T>(code, b);
        for (i64 i = b * kBlock; i < std::min(n, (b + 1) * kBlock); ++i)
          q[static_cast<std::size_t>(i)] =
              static_cast<T>(static_cast<std::int8_t>(values[i])) * scale;
      }
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
