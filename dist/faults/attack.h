// What a worker that lies sends instead of its model: the attacks against which ClippedGossip was
// published (He, Karimireddy, Jaggi 2022, arXiv 2202.01545, and its code).
//   dissensus    x_t - 1.5 sum_j W_tj (x_j - x_t) / W_tb: pulls t away from its neighbours, further
//                than they pull it to them
//   sign-flip    -x_b
//   alie         mean - 10 deviations, by coordinate, over t and its neighbours ("a little is
//                enough")
//   ipm          -0.1 mean over them (inner product manipulation)
//   label-flip   its model as it is, but trained on wrong labels: classes - 1 - label
// b is the liar, t whom it lies to, j the honest neighbours of t. Pure.
// Threads: any.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace gossamer::dist {

enum class Attack : std::uint8_t { dissensus, sign_flip, alie, ipm, label_flip };
inline constexpr std::array<std::string_view, 5> kAttackNames = {"dissensus", "sign-flip", "alie",
                                                                 "ipm", "label-flip"};

// A model that the liar knows, and its weight for whom it lies to.
template <class T>
struct KnownModel {
  double weight;
  std::span<const T> x;
};
// Writes what b sends to t. target: x_t; others: the x_j with W_tj. own_weight: W_tb, of all liars
// together. Everything is as long as `own`, x_b.
template <class T>
void lie(Attack attack, std::span<const T> own, std::span<const T> target, double own_weight,
         const std::vector<KnownModel<T>>& others, std::span<T> out) {
  constexpr double kPull = 1.5, kDeviations = 10, kPart = .1;
  const auto count = static_cast<double>(others.size() + 1);
  for (std::size_t k = 0; k < own.size(); ++k) {
    double sum = target[k], squared = 0, pull = 0;
    for (const auto& [weight, x] : others) sum += x[k], pull += weight * (x[k] - target[k]);
    const double mean = sum / count;
    const auto add = [&](double x) { squared += (x - mean) * (x - mean); };
    add(target[k]);
    for (const auto& other : others) add(other.x[k]);
    double said = own[k];
    switch (attack) {
      case Attack::dissensus:
        said = target[k] - kPull * pull / own_weight;
        break;
      case Attack::sign_flip:
        said = -own[k];
        break;
      case Attack::alie:
        said = mean - (count > 1 ? kDeviations * std::sqrt(squared / (count - 1)) : 0);
        break;
      case Attack::ipm:
        said = -kPart * mean;
        break;
      case Attack::label_flip:
        break;
    }
    out[k] = static_cast<T>(said);
  }
}

}  // namespace gossamer::dist
