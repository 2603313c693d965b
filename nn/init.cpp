// Initial values, drawn from the calling thread's generator.
#include "gossamer/nn/init.h"

#include <cmath>
#include <utility>

namespace gossamer::nn {
namespace {

thread_local Rng generator{0};
thread_local bool no_values = false;

template <class Draw>
Tensor filled(Shape shape, Draw draw) {
  Tensor t = Tensor::empty(shape);
  if (no_values) return t;
  for (float& value : t.span<float>()) value = draw();
  return t;
}

}  // namespace

Rng& init_rng() { return generator; }
void seed_initialisation(std::uint64_t seed) { generator = Rng(seed); }

NoInitialValues::NoInitialValues() : outer_(std::exchange(no_values, true)) {}
NoInitialValues::~NoInitialValues() { no_values = outer_; }

Tensor normal(Shape shape, float mean, float stddev, Rng& rng) {
  return filled(shape, [&] { return mean + stddev * rng.normal(); });
}

Tensor uniform(Shape shape, float low, float high, Rng& rng) {
  return filled(shape, [&] { return rng.uniform(low, high); });
}

Tensor kaiming_normal(Shape shape, i64 fan, Rng& rng) {
  check<ConfigError>(fan > 0, "kaiming_normal: fan ", fan, " of shape ", shape,
                     "; wanted at least 1");
  return normal(shape, 0, std::sqrt(2.f / static_cast<float>(fan)), rng);
}

}  // namespace gossamer::nn
