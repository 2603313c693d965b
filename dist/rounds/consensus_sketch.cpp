// Distances from count sketches.
#include "gossamer/dist/rounds/consensus_sketch.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/exchange.h"

namespace gossamer::dist {

std::vector<double> sketch(const Tensor& x, std::uint64_t seed) {
  std::vector<double> out(kSketchSize + 1, 0.0);
  count_sketch(x, seed, std::span(out).first(kSketchSize));
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
