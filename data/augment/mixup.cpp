// See mixup.h.
#include "gossamer/data/augment/mixup.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gossamer/core/error.h"

namespace gossamer::data {
namespace {

double draw_normal(Rng& rng) {
  const double u = 1.0 - rng.uniform53(), v = rng.uniform53();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

// The logarithm, because Gamma(0.01) is often too small for a double.
double draw_log_gamma(Rng& rng, double shape) {
  if (shape < 1) return draw_log_gamma(rng, shape + 1) + std::log(1.0 - rng.uniform53()) / shape;
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draw_normal(rng), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(1.0 - rng.uniform53()) < 0.5 * x * x + d - d * v + d * std::log(v))
      return std::log(d * v);
  }
}

}  // namespace

double draw_beta(Rng& rng, double a, double b) {
  check<ConfigError>(a > 0 && b > 0, "beta distribution: ", a, ", ", b, "; both must be above 0");
  const double x = draw_log_gamma(rng, a), y = draw_log_gamma(rng, b);
  return 1 / (1 + std::exp(y - x));
}

MixPlan draw_mix(const MixOptions& o, int height, int width, Rng& rng) {
  check<ConfigError>(o.mixup >= 0 && o.cutmix >= 0, "mixup ", o.mixup, ", cutmix ", o.cutmix,
                     "; neither can be negative");
  if (!o.on()) return {};
  const bool cut = o.mixup == 0 || (o.cutmix > 0 && rng.below(2));
  const double alpha = cut ? o.cutmix : o.mixup, lambda = draw_beta(rng, alpha, alpha);
  if (!cut) {
    const auto own = static_cast<float>(lambda);
    return {own, {own, own, 0, 0, 0, 0}};
  }
  const int x = static_cast<int>(rng.below(static_cast<std::uint32_t>(width))),
            y = static_cast<int>(rng.below(static_cast<std::uint32_t>(height)));
  const double half = 0.5 * std::sqrt(1 - lambda);
  const int reach_x = static_cast<int>(half * width), reach_y = static_cast<int>(half * height);
  const int left = std::max(x - reach_x, 0), right = std::min(x + reach_x, width),
            top = std::max(y - reach_y, 0), bottom = std::min(y + reach_y, height);
  const double cut_away =
      static_cast<double>(right - left) * (bottom - top) / (static_cast<double>(width) * height);
  return {1 - cut_away,
          {1, 0, static_cast<float>(top), static_cast<float>(bottom), static_cast<float>(left),
           static_cast<float>(right)}};
}

}  // namespace gossamer::data
