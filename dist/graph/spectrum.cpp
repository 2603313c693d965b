// How fast synchronous rounds mix, from the spectrum of their matrices. Randomised gossip is in
// decay.cpp.
#include "gossamer/dist/graph/spectrum.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/graph/sparse_laplacian.h"
#include "gossamer/dist/graph/translation.h"

namespace gossamer::dist {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

constexpr double kTarget = 1e-6, kZero = 1e-12;
constexpr int kExactWorkers = 128, kDenseWorkers = 256;

// I - W as a Laplacian: its edges are the weights. ConfigError unless W is symmetric and always the
// same.
Graph weights_of(const Rounds& rounds) {
  check<ConfigError>(rounds.period() == 1 && !rounds.directed(), "rounds ", rounds.name(),
                     ": eigenvalues are asked for, but the mixing matrix is not one symmetric one");
  Graph g{rounds.name(), rounds.workers(), {}};
  for (int i = 0; i < g.n; ++i)
    for (const auto& [j, weight] : rounds.round(i, 0).in)
      if (i < j) g.edges.push_back({i, j, weight});
  return g;
}

Mixing from_gap(double gap) {
  Mixing m{1 - gap, gap, 0};
  if (m.rho < kZero) return {0, 1, 1};
  if (gap > 0) m.rounds = static_cast<i64>(std::ceil(std::log(kTarget) / std::log1p(-gap)));
  return m;
}

Mixing constant_rounds(const Rounds& rounds) {
  const Graph g = weights_of(rounds);
  // 1 - eigenvalue of W: the smallest above 0, and the largest
  double first = 0, last = 0;
  if (g.n > kDenseWorkers && !Translation::of(g)) {
    const SparseLaplacian l(g);
    first = l.smallest_positive(), last = l.largest();
  } else {
    const std::vector<double> falls = laplacian_eigenvalues(g);
    first = falls[1], last = falls.back();
  }
  // the far end counts if W has eigenvalues near -1
  return from_gap(std::max(0.0, std::min(first, 2 - last)));
}

void subtract_mean(std::vector<double>& x) {
  double mean = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (double& v : x) v -= mean;
}

double length(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

std::vector<double> random_start(int n) {
  Rng random(1);
  std::vector<double> x(at(n));
  for (double& v : x) v = random.uniform53() - 0.5;
  subtract_mean(x);
  return x;
}

// x <- W x, for all columns of x at once: x holds `columns` numbers per worker.
void mix(const Rounds& rounds, i64 k, int columns, std::vector<double>& x) {
  const std::vector<double> before = x;
  for (int i = 0; i < rounds.workers(); ++i) {
    const Round r = rounds.round(i, k);
    double* to = x.data() + at(i) * at(columns);
    for (int c = 0; c < columns; ++c) to[c] *= r.own;
    for (const auto& [j, weight] : r.in) {
      const double* from = before.data() + at(j) * at(columns);
      for (int c = 0; c < columns; ++c) to[c] += weight * from[c];
    }
  }
}

// The rounds after which the mean is exact, whatever the start; 0 if it is not within a period.
// Tried with a random start: what was far from the mean must be there after one more round (just
// shrinking, however fast, is something else).
i64 rounds_to_the_mean(const Rounds& rounds) {
  std::vector<double> x = random_start(rounds.workers());
  double before = length(x);
  const double start = before;
  for (i64 k = 0; k < std::min<i64>(rounds.period(), 4096); ++k) {
    mix(rounds, k, 1, x);
    subtract_mean(x);
    const double now = length(x);
    if (now < kZero * start) return before > kTarget * start ? k + 1 : 0;
    before = now;
  }
  return 0;
}

// ln of the spectral radius of the product of one period: |P^m|^(1/m) for m = 2^32 (Gelfand), by
// squaring.
double log_radius(const Rounds& rounds) {
  const int n = rounds.workers();
  Square product(n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) product(i, j) = (i == j) - 1.0 / n;
  // of `product`, which is kept at length 1
  double log_scale = 0;
  // Rounding brings back a little of the mean, which does not shrink: taken off each time.
  const auto normalise = [&] {
    std::vector<double> sum(at(n));
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) sum[at(j)] += product(i, j) / n;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) product(i, j) -= sum[at(j)];
    const double size = length(product.values);
    for (double& v : product.values) v /= size;
    log_scale += std::log(size);
  };
  for (i64 k = 0; k < rounds.period(); ++k) {
    mix(rounds, k, n, product.values);
    normalise();
  }
  double power = 1;
  for (int k = 0; k < 32; ++k) {
    product = multiply(product, product);
    power *= 2, log_scale *= 2;
    normalise();
  }
  return log_scale / power;
}

// ln of the shrinking per round, from a long run with a random start; the first half is left to
// settle. Empty if it has not.
std::optional<double> log_shrinking(const Rounds& rounds) {
  constexpr i64 kRounds = 8000;
  std::vector<double> x = random_start(rounds.workers());
  double quarter[4] = {};
  for (i64 k = 0; k < kRounds; ++k) {
    mix(rounds, k, 1, x);
    subtract_mean(x);
    const double now = length(x);
    for (double& v : x) v /= now;
    quarter[4 * k / kRounds] += std::log(now) / (kRounds / 4);
  }
  if (std::abs(quarter[3] - quarter[2]) > 0.01 * std::abs(quarter[3])) return std::nullopt;
  return (quarter[2] + quarter[3]) / 2;
}

}  // namespace

Square laplacian(const Graph& g) {
  Square out(g.n);
  for (const Edge& e : g.edges) {
    out(e.a, e.a) += e.rate, out(e.b, e.b) += e.rate;
    out(e.a, e.b) -= e.rate, out(e.b, e.a) -= e.rate;
  }
  return out;
}

std::vector<double> laplacian_eigenvalues(const Graph& g) {
  const auto symmetry = Translation::of(g);
  if (!symmetry) return symmetric_eigenvalues(laplacian(g));
  std::vector<double> values = symmetry->laplacian_eigenvalues();
  std::ranges::sort(values);
  return values;
}

std::vector<double> mixing_eigenvalues(const Rounds& rounds) {
  std::vector<double> values = laplacian_eigenvalues(weights_of(rounds));
  for (double& v : values) v = 1 - v;
  return values;
}

double noise_distance(const Rounds& rounds, bool adapt_then_combine) {
  double sum = 0;
  const std::vector<double> values = mixing_eigenvalues(rounds);
  for (std::size_t k = 1; k < values.size(); ++k)
    sum += (adapt_then_combine ? values[k] * values[k] : 1) / (1 - values[k] * values[k]);
  return sum / static_cast<double>(values.size());
}

std::optional<Mixing> mixing(const Rounds& rounds) {
  if (rounds.workers() < 2) return Mixing{};
  if (rounds.period() == 1 && !rounds.directed()) return constant_rounds(rounds);
  if (const i64 exact = rounds_to_the_mean(rounds)) return Mixing{0, 1, exact};
  if (rounds.workers() <= kExactWorkers)
    return from_gap(-std::expm1(log_radius(rounds) / static_cast<double>(rounds.period())));
  const auto estimate = log_shrinking(rounds);
  return estimate ? std::optional(from_gap(-std::expm1(*estimate))) : std::nullopt;
}

}  // namespace gossamer::dist
