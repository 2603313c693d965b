// Sequential draws from one Philox stream.
#include "gossamer/core/random.h"

#include <cmath>
#include <numbers>

namespace gossamer {

std::uint32_t Rng::word() {
  if (left_ == 0) {
    four_ = philox_(counter_++, stream_);
    left_ = 4;
  }
  return four_.v[4 - left_--];
}

double Rng::uniform53() {
  const std::uint64_t high = word(), low = word();
  return static_cast<double>(((high << 32) | low) >> 11) * 0x1p-53;
}

std::uint32_t Rng::below(std::uint32_t n) {
  // Lemire's multiply-shift; the few words that would bias the result are drawn again.
  const std::uint32_t threshold = (0u - n) % n;
  for (;;) {
    const std::uint64_t product = static_cast<std::uint64_t>(word()) * n;
    if (static_cast<std::uint32_t>(product) >= threshold)
      return static_cast<std::uint32_t>(product >> 32);
  }
}

float Rng::normal() {
  const double u = 1.0 - uniform53(), v = uniform53();
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
}

double Rng::exponential() { return -std::log(1.0 - uniform53()); }

int Rng::poisson(double mean) {
  // Counts arrivals of a unit-rate process before `mean`: exact, and the means used here are small.
  int count = 0;
  for (double t = exponential(); t < mean; t += exponential()) ++count;
  return count;
}

}  // namespace gossamer
