// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a
// counter-based generator, so any element of any stream can be drawn alone, and CPU and GPU draw
// the same numbers.
// Threads: any for Philox; one at a time for an Rng.
#pragma once

#include <array>
#include <cstdint>

#include "gossamer/core/dtype.h"

namespace gossamer {

struct Philox {
  std::uint32_t k0 = 0, k1 = 0;  // key
  GOSSAMER_HD explicit Philox(std::uint64_t seed)
      : k0(static_cast<std::uint32_t>(seed)), k1(static_cast<std::uint32_t>(seed >> 32)) {}

  struct Four {
    std::uint32_t v[4];
  };
  // Four random words for (counter, stream).
  GOSSAMER_HD Four operator()(std::uint64_t counter, std::uint64_t stream = 0) const {
    std::uint32_t c0 = static_cast<std::uint32_t>(counter),
                  c1 = static_cast<std::uint32_t>(counter >> 32);
    std::uint32_t c2 = static_cast<std::uint32_t>(stream),
                  c3 = static_cast<std::uint32_t>(stream >> 32);
    std::uint32_t a = k0, b = k1;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
      c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ a;
      c1 = static_cast<std::uint32_t>(p1);
      c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ b;
      c3 = static_cast<std::uint32_t>(p0);
      a += 0x9E3779B9u;
      b += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
  }
};

// [0, 1)
GOSSAMER_HD inline float to_unit(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

// A sequential generator on one (seed, stream); cheap to make, so make one per sample rather than
// sharing.
class Rng {
 public:
  explicit Rng(std::uint64_t seed, std::uint64_t stream = 0) : philox_(seed), stream_(stream) {}
  std::uint32_t word();
  float uniform() { return to_unit(word()); }  // [0, 1)
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  double uniform53();  // [0, 1), 53 bits
  // 0 … n-1, unbiased; n > 0
  std::uint32_t below(std::uint32_t n);
  // mean 0, variance 1 (Box-Muller)
  float normal();
  double exponential();  // mean 1
  int poisson(double mean);

 private:
  Philox philox_;
  std::uint64_t stream_, counter_ = 0;
  Philox::Four four_{};
  int left_ = 0;
};

}  // namespace gossamer
