// Finding out whether a graph is translation-invariant, and its Fourier modes.
#include "gossamer/dist/graph/translation.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace gossamer::dist {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

Translation::Translation(int n, std::vector<int> factors)
    : n_(n), factors_(std::move(factors)), falls_(at(n)) {
  for (int j = 0; j < n; ++j) {
    const double half = std::sin(std::numbers::pi * j / n);
    falls_[at(j)] = 2 * half * half;
  }
}

int Translation::difference(int a, int b) const {
  int out = 0, place = 1;
  for (auto factor = factors_.rbegin(); factor != factors_.rend(); ++factor) {
    out += (b % *factor - a % *factor + *factor) % *factor * place;
    place *= *factor;
    a /= *factor, b /= *factor;
  }
  return out;
}

double Translation::fall(int k, int worker) const {
  // in n-ths of a turn: every factor divides n
  std::int64_t phase = 0;
  for (auto factor = factors_.rbegin(); factor != factors_.rend(); ++factor) {
    phase += std::int64_t{k % *factor} * (worker % *factor) * (n_ / *factor);
    k /= *factor, worker /= *factor;
  }
  return falls_[static_cast<std::size_t>(phase % n_)];
}

std::vector<double> Translation::laplacian_eigenvalues() const {
  std::vector<double> out(at(n_));
  for (int k = 0; k < n_; ++k)
    for (const Step& step : steps_) out[at(k)] += step.rate * fall(k, step.to);
  return out;
}

bool Translation::fits(const Graph& g) {
  std::vector<double> rate(at(n_));
  for (const Edge& e : g.edges)
    if (e.a == 0) rate[at(e.b)] = e.rate;
  std::size_t steps = 0;
  for (const double r : rate) steps += r > 0;
  if (g.edges.size() * 2 != steps * at(n_)) return false;
  for (const Edge& e : g.edges)
    for (const double expected : {rate[at(difference(e.a, e.b))], rate[at(difference(e.b, e.a))]})
      if (std::abs(e.rate - expected) > 1e-12 * e.rate) return false;
  for (int d = 0; d < n_; ++d)
    if (rate[at(d)] > 0) steps_.push_back({d, rate[at(d)]});
  return true;
}

std::optional<Translation> Translation::of(const Graph& g) {
  std::vector<std::vector<int>> groups = {{g.n}};
  const auto n = static_cast<unsigned>(g.n);
  if (std::has_single_bit(n) && g.n > 2) groups.emplace_back(std::bit_width(n) - 1, 2);
  for (int rows = 2; rows * rows <= g.n; ++rows)
    if (g.n % rows == 0) groups.push_back({rows, g.n / rows});
  for (std::vector<int>& group : groups)
    if (Translation t(g.n, std::move(group)); t.fits(g)) return t;
  return std::nullopt;
}

}  // namespace gossamer::dist
