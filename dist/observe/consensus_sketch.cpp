// A count sketch: element i is added, with a random sign, to number i mod 1,024.
#include "gossamer/dist/observe/consensus_sketch.h"

#include <algorithm>
#include <cmath>

namespace gossamer::dist {
namespace {

std::uint64_t scramble(std::uint64_t x) {      // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<double> sketch(std::span<const float> x, std::uint64_t seed) {
  std::vector<double> out(kSketchSize + 1, 0.0);
  constexpr std::size_t kWord = 64;            // signs of one random word
  const std::uint64_t stream = scramble(seed);
  for (std::size_t begin = 0; begin < x.size(); begin += kWord) {
    const std::uint64_t signs = scramble(stream ^ begin);
    double* sums = out.data() + begin % kSketchSize;
    const std::size_t count = std::min(kWord, x.size() - begin);
    for (std::size_t j = 0; j < count; ++j)
      sums[j] += (signs >> j & 1) ? -static_cast<double>(x[begin + j]) : static_cast<double>(x[begin + j]);
  }
  double square = 0;
  for (std::size_t j = 0; j < kSketchSize; ++j) square += out[j] * out[j];
  out[kSketchSize] = square;
  return out;
}

double distance_from_sketches(std::span<const double> sum, int n) {
  double mean_square = 0;
  for (std::size_t j = 0; j < kSketchSize; ++j) mean_square += sum[j] / n * (sum[j] / n);
  return std::sqrt(std::max(0.0, sum[kSketchSize] / n - mean_square));
}

}  // namespace gossamer::dist
