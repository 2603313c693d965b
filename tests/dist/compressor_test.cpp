// What each compressor lets through.
#include "gossamer/dist/compressor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/core/io/xxh3.h"
#include "gossamer/core/random.h"

namespace gossamer::dist {
namespace {

Compressor compressor(const std::string& name, double share = .1, i64 bits = 4) {
  CompressorOptions o;
  o.compressor = name, o.compressed_share = share, o.compressed_bits = bits;
  return {o, 5};
}

template <class T>
std::vector<T> through(const Compressor& by, const std::vector<T>& v, std::uint64_t counter = 0) {
  std::vector<char> code(static_cast<std::size_t>(by.bytes<T>(std::ssize(v))));
  by.encode<T>(v, counter, code);
  std::vector<T> q(v.size());
  by.decode<T>(code, counter, q);
  return q;
}

template <class T>
std::vector<T> drawn(std::size_t n, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<T> v(n);
  for (T& x : v) {
    x = static_cast<T>(rng.normal()) * std::pow(T{10}, static_cast<T>(rng.below(9)) - 4);
    if (rng.below(4) == 0) x = std::round(x);  // ties, and zeros
  }
  return v;
}

template <class T>
class Compressors : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Compressors, Types);

// The k largest of v where they are, 0 elsewhere; of equal ones the first.
template <class T>
std::vector<T> largest(const std::vector<T>& v, double share) {
  const auto n = static_cast<double>(v.size());
  std::vector<std::size_t> order(v.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return std::abs(v[a]) > std::abs(v[b]); });
  order.resize(std::max<std::size_t>(1, static_cast<std::size_t>(share * n + 1e-9)));
  std::vector<T> out(v.size());
  for (const std::size_t i : order) out[i] = v[i];
  return out;
}

TYPED_TEST(Compressors, TopKTakesTheLargestAndOfEqualOnesTheFirst) {
  for (const std::size_t n :
       {1u, 2u, 3u, 31u, 32u, 33u, 64u, 65u, 512u, 513u, 1000u, 4099u, 20'011u})
    for (const double share : {.001, .01, .1, .5, .97, 1.}) {
      const std::vector<TypeParam> v = drawn<TypeParam>(n, n);
      EXPECT_EQ(through(compressor("top-k", share), v), largest(v, share)) << n << " " << share;
    }
}

// A sample is looked at first. It must be right where the sample says little, or says what is
// wrong.
TYPED_TEST(Compressors, TopKIsRightForVectorsThatAreUnlikeTheirSample) {
  constexpr std::size_t n = 16'000, stretch = 16;
  std::vector<std::vector<TypeParam>> all(7, std::vector<TypeParam>(n));
  std::vector<TypeParam>&equal = all[0], &few = all[1], &many = all[2], &rising = all[3];
  std::vector<TypeParam>&huge = all[4], &only_seen = all[5], &only_unseen = all[6];
  std::uint32_t draw = 1;
  Rng rng(3);
  for (std::size_t i = 0; i < n; ++i) {
    const auto x = static_cast<TypeParam>(rng.uniform()) + TypeParam(.5);
    equal[i] = i % 2 == 0 ? 2 : -2;
    few[i] = i % 97 == 0 ? x : 0;
    many[i] = i % 11 == 0 ? 0 : x * 1000;
    rising[i] = static_cast<TypeParam>(i);
    huge[i] = i == 5 ? std::numeric_limits<TypeParam>::max()
                     : std::numeric_limits<TypeParam>::denorm_min() * static_cast<TypeParam>(i % 9);
    if (i % stretch == 0) draw = draw * 1664525 + 1013904223;
    const bool seen = i % stretch == draw / (1u << 28);
    only_seen[i] = seen ? x * 100 : x;
    only_unseen[i] = !seen && i % stretch < 3 ? x * 100 : x;
  }
  for (std::size_t which = 0; which < all.size(); ++which)
    for (const double share : {.0001, .01, .05, .1, .15, .9, 1.})
      EXPECT_EQ(through(compressor("top-k", share), all[which]), largest(all[which], share))
          << which << " " << share;
}

// Two machines of one run must send each other the same bits. Made by the program before
// 2026-11-29.
TEST(Compressors, CodesAreTheSameBitsOnEveryMachine) {
  std::vector<float> v(10'000);
  Rng rng(4);
  for (float& x : v) {
    x = rng.uniform() - .5f;
    x *= x * x;
  }
  std::vector<std::uint64_t> digests;
  for (const std::string& name : CompressorOptions::names()) {
    const Compressor by = compressor(name, .1, 3);
    std::vector<char> code(static_cast<std::size_t>(by.bytes<float>(std::ssize(v))));
    by.encode<float>(v, 11, code);
    digests.push_back(xxh3(std::as_bytes(std::span(code))));
  }
  EXPECT_EQ(digests, (std::vector<std::uint64_t>{0x500c0b756bfd23e4, 0xc28c80d702b9f295,
                                                 0xa85b14f5e5cef57a, 0xdd5158056593a10a,
                                                 0xf6c6bf292cfdd3f2, 0x840d501a48e0ff0a}));
}

TYPED_TEST(Compressors, RandomKTakesOneOfEachStretchWithEqualChances) {
  constexpr std::size_t n = 23, k = 5;
  const std::vector<TypeParam> ones(n, 1);
  std::vector<double> often(n);
  constexpr int draws = 40'000;
  for (int t = 0; t < draws; ++t) {
    const auto q = through(compressor("random-k", k / 23.), ones, static_cast<std::uint64_t>(t));
    for (std::size_t i = 0; i < k; ++i)
      EXPECT_EQ(std::accumulate(q.begin() + static_cast<std::ptrdiff_t>(i * n / k),
                                q.begin() + static_cast<std::ptrdiff_t>((i + 1) * n / k), 0.),
                1);
    for (std::size_t j = 0; j < n; ++j) often[j] += static_cast<double>(q[j]) / draws;
  }
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t j = i * n / k; j < (i + 1) * n / k; ++j)
      EXPECT_NEAR(often[j], 1. / static_cast<double>((i + 1) * n / k - i * n / k), .02);
}

TYPED_TEST(Compressors, SignKeepsTheMeanSizeAndCountsZeroAsAbove) {
  EXPECT_EQ(through<TypeParam>(compressor("sign"), {3, -1, 0, -4, 2, 0, 0, 0, -6, 4}),
            (std::vector<TypeParam>{2, -2, 2, -2, 2, 2, 2, 2, -2, 2}));
}

// v = (3, -4, 0, 1.4): |v| = sqrt(26.96), 15 levels.
TYPED_TEST(Compressors, QsgdRoundsToLevelsOfTheNorm) {
  const double norm = std::sqrt(26.96), unit = norm / 15 / (1 + std::min(4 / 225., 2 / 15.));
  const auto q = through<TypeParam>(compressor("qsgd", .1, 5), {3, -4, 0, TypeParam(1.4)});
  const double levels[] = {9, -12, 0, 4};  // of 8.67, 11.56, 0, 4.04
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(static_cast<double>(q[i]), levels[i] * unit, 1e-6 * norm);
  EXPECT_EQ(through<TypeParam>(compressor("qsgd"), {0, 0, 0}), (std::vector<TypeParam>(3)));
}

TYPED_TEST(Compressors, Int8IsRightToHalfAStepOfItsBlock) {
  const std::vector<TypeParam> v = drawn<TypeParam>(700, 3);
  const auto q = through(compressor("int8"), v);
  for (std::size_t begin = 0; begin < v.size(); begin += 256) {
    const std::size_t end = std::min(v.size(), begin + 256);
    TypeParam most = 0;
    for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(v[i]));
    for (std::size_t i = begin; i < end; ++i)
      EXPECT_LE(std::abs(q[i] - v[i]), most / 254 * TypeParam(1.001));
  }
}

// Eight values that travel of a chunk, in four bins (from SparseLoCo's code, in Python).
TYPED_TEST(Compressors, ChunkTopKSendsTheMeansOfItsBins) {
  EXPECT_EQ(through<TypeParam>(compressor("chunk-top-k", 1, 2), {3, -1, 4, 1, -5, 9, -2, 6}),
            (std::vector<TypeParam>{1.75, 1.75, 1.75, 1.75, -3.5, 7.5, -3.5, 7.5}));
  EXPECT_EQ(through<TypeParam>(compressor("chunk-top-k", .3, 2), {0, 0, -7}),
            (std::vector<TypeParam>{0, 0, -7}));
}

// Of each chunk as many as of the others, however large these are; with eight bits nearly exact.
TYPED_TEST(Compressors, ChunkTopKTakesTheLargestOfEachChunk) {
  constexpr std::size_t chunk = 4096, n = 2 * chunk + 70;
  std::vector<TypeParam> v = drawn<TypeParam>(n, 8);
  for (TypeParam& x : v) x = x == 0 ? TypeParam{1} : x / std::abs(x) + x * TypeParam(1e-5);
  const auto q = through(compressor("chunk-top-k", .01, 8), v);
  for (std::size_t begin = 0; begin < n; begin += chunk) {
    const std::size_t size = std::min(chunk, n - begin), k = std::max<std::size_t>(1, size / 100);
    std::vector<std::size_t> order(size);
    std::iota(order.begin(), order.end(), begin);
    std::ranges::stable_sort(
        order, [&](std::size_t a, std::size_t b) { return std::abs(v[a]) > std::abs(v[b]); });
    for (std::size_t i = 0; i < size; ++i)
      if (i < k)
        EXPECT_NEAR(static_cast<double>(q[order[i]]), static_cast<double>(v[order[i]]), .05);
      else
        EXPECT_EQ(q[order[i]], TypeParam{0});
  }
}

// |Q(v) - v| < |v|: without that, a replica would never arrive.
TYPED_TEST(Compressors, AllComeCloser) {
  for (const std::string& name : CompressorOptions::names())
    for (const std::size_t n : {1u, 7u, 64u, 1000u})
      for (std::uint64_t t = 0; t < 20; ++t) {
        const std::vector<TypeParam> v = drawn<TypeParam>(n, 100 + t);
        const auto q = through(compressor(name, .3), v, t);
        double left = 0, all = 0;
        for (std::size_t i = 0; i < n; ++i) {
          left += std::pow(static_cast<double>(v[i] - q[i]), 2);
          all += std::pow(static_cast<double>(v[i]), 2);
        }
        EXPECT_LE(left, all * (1 + 1e-6)) << name << " " << n;
      }
}

TEST(Compressors, TheirBytesAreWhatThePageSays) {
  EXPECT_EQ(compressor("top-k", .01).bytes<float>(100'000), 8000);
  EXPECT_EQ(compressor("random-k", .01).bytes<float>(100'000), 4000);
  EXPECT_EQ(compressor("sign").bytes<float>(100'001), 4 + 12'501);
  EXPECT_EQ(compressor("qsgd", .1, 4).bytes<float>(100'001), 4 + 50'001);
  EXPECT_EQ(compressor("int8").bytes<float>(1000), 1000 + 4 * 4);
  // 128 of each 4,096, and 3 of the last 100: 12 bits for the place, 2 for the value
  CompressorOptions usual;
  EXPECT_EQ(Compressor(usual.usually("chunk-top-k"), 0).bytes<float>(2 * 4096 + 100),
            4 * 4 + (259 * 2 + 7) / 8 + (259 * 12 + 7) / 8);
  for (const std::string& name : CompressorOptions::names())
    EXPECT_EQ(compressor(name).bytes<float>(0), 0) << name;
}

// Bytes of a stranger: any are decoded, or refused.
TEST(Compressors, DecodeRefusesPlacesBeyondTheEnd) {
  Rng rng(9);
  int refused = 0;
  for (const std::string& name : CompressorOptions::names())
    for (int run = 0; run < 200; ++run) {
      const std::size_t n = 1 + rng.below(300);
      const Compressor by = compressor(name, .2);
      std::vector<char> code(static_cast<std::size_t>(by.bytes<float>(static_cast<i64>(n))));
      for (char& each : code) each = static_cast<char>(rng.below(256));
      std::vector<float> q(n);
      try {
        by.decode<float>(code, 0, q);
      } catch (const DistError&) {
        ++refused;
      }
      code.pop_back();
      EXPECT_THROW(by.decode<float>(code, 0, q), DistError) << name;
    }
  EXPECT_GT(refused, 150);
}

}  // namespace
}  // namespace gossamer::dist
