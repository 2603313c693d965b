// How fast synchronous rounds mix, from the spectrum of their matrices; then how fast randomised
// gossip agrees.
#include "gossamer/dist/graph/theory.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

// --- randomised gossip
//
// Second moments of all pairs of workers follow a closed linear equation, with and without the twin
// of A2CiD2, whatever the distribution; its slowest mode is the exponent. Translation-invariant
// graphs need one moment per distance only.
namespace {

constexpr int kMostUnknowns = 800;  // of the dense system: a second or two

// E[y_p z_q] for y, z in {x (0), twin (1)} and workers p, q: numbers in a row, one for all that are
// equal by symmetry.
class Moments {
 public:
  struct Entry {
    int y, z, p, q;
  };

  Moments(const Graph& g, const std::optional<Translation>& symmetry, bool twin)
      : n_(g.n), symmetry_(symmetry) {
    // x x, x twin, twin twin
    for (int kind = 0; kind < (twin ? 3 : 1); ++kind) {
      number_[kind].assign(at(symmetry ? n_ : n_ * n_), -1);
      for (int p = 0; p < (symmetry ? 1 : n_); ++p)
        for (int q = 0; q < n_; ++q) {
          // E[x_p x_q] = E[x_q x_p]. A translation-invariant graph looks the same backwards, so
          // there E[x_p twin_q] = E[x_q twin_p] too.
          int& mirrored = number_[kind][at(place(q, p))];
          int& number = number_[kind][at(place(p, q))];
          if ((kind != 1 || symmetry) && mirrored >= 0)
            number = mirrored;
          else
            number = count(), entries_.push_back({kind == 2, kind >= 1, p, q});
        }
    }
  }

  int count() const { return static_cast<int>(entries_.size()); }
  // one of those that share the number
  const Entry& entry(int index) const { return entries_[at(index)]; }
  int index(int y, int z, int p, int q) const {
    return y > z ? index(z, y, q, p) : number_[y + z][at(place(p, q))];
  }

 private:
  int place(int p, int q) const { return symmetry_ ? symmetry_->difference(p, q) : p * n_ + q; }

  int n_;
  const std::optional<Translation>& symmetry_;
  std::vector<int> number_[3];
  std::vector<Entry> entries_;
};

// What multiplies time in front of n values that sum to 0: moves the spectrum of everything else
// (where the mean is not 0) far to the left.
double out_of_the_way(double eta, double rate) { return 8 * (1 + eta + rate); }

// d/dt of all moments = matrix * moments.
Square second_moments(const Graph& g, const Moments& moments, double eta, const double (&step)[2]) {
  std::vector<std::vector<std::pair<int, double>>> neighbours(at(g.n));
  double busiest = 0;
  for (const Edge& e : g.edges)
    neighbours[at(e.a)].emplace_back(e.b, e.rate), neighbours[at(e.b)].emplace_back(e.a, e.rate);
  for (const auto& list : neighbours) {
    double sum = 0;
    for (const auto& [j, rate] : list) sum += rate;
    busiest = std::max(busiest, sum);
  }
  const double kappa = out_of_the_way(eta, busiest);
  Square m(moments.count());
  for (int row = 0; row < m.n; ++row) {
    const auto [y, z, p, q] = moments.entry(row);
    double* out = m.row(row);
    const auto add = [&](int y2, int z2, int p2, int q2, double factor) {
      out[moments.index(y2, z2, p2, q2)] += factor;
    };
    // Between exchanges x and twin are pulled together.
    if (eta > 0) add(1 - y, z, p, q, eta), add(y, 1 - z, p, q, eta), add(y, z, p, q, -2 * eta);
    // An exchange of (a, b): y_a -= step_y (x_a - x_b), y_b += the same.
    for (const auto& [j, rate] : neighbours[at(p)])
      add(0, z, p, q, -rate * step[y]), add(0, z, j, q, rate * step[y]);
    for (const auto& [j, rate] : neighbours[at(q)])
      add(y, 0, p, q, -rate * step[z]), add(y, 0, p, j, rate * step[z]);
    const double both = step[y] * step[z];
    for (const auto& [j, rate] : neighbours[at(p)]) {
      if (p != q && j != q) continue;
      const double factor = (p == q ? 1 : -1) * rate * both;
      add(0, 0, p, p, factor), add(0, 0, j, j, factor), add(0, 0, p, j, -2 * factor);
    }
    for (int r = 0; r < g.n; ++r) add(y, z, r, q, -kappa / g.n), add(y, z, p, r, -kappa / g.n);
  }
  return m;
}

// An upper bound of the growth of E|(x, twin)|^2 where no worker exchanges more than once per unit
// of time. Between exchanges it does not grow. An exchange changes it by
// 2 (step_0^2 + step_1^2 - step_0) d^2 - 2 step_1 d d~, where d, d~ are the differences of the two
// workers in x and twin; sum of rate (d^2 + d~^2) over all edges is at most 2 |(x, twin)|^2.
double fastest_growth(const double (&step)[2]) {
  const double own = step[0] * step[0] + step[1] * step[1] - step[0],
               largest = own + std::hypot(own, step[1]);
  return 2 * std::max(0.0, largest);
}

// Inverse iteration near `shift`, which lies to the right of the spectrum. Second moments stay
// second moments, so (Perron and Frobenius) the rightmost eigenvalue is real, and the nearest to
// any such shift. `x` is the start, and then the mode.
double rightmost(Square m, double shift, int rounds, std::vector<double>& x) {
  for (int i = 0; i < m.n; ++i) m(i, i) -= shift;
  const LinearSystem system(std::move(m));
  double value = 0;
  for (int k = 0; k < rounds; ++k) {
    const std::vector<double> next = system.solve(x);
    double along = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); ++i) along += x[i] * next[i], size += next[i] * next[i];
    const double before = std::exchange(value, shift + along / size);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = next[i] / std::sqrt(size);
    if (std::abs(value - before) < 1e-13 * (1 + std::abs(value)) && k > 8) break;
  }
  return value;
}

}  // namespace

std::optional<double> decay_exponent(const Graph& g, double eta, double alpha, double alpha_tilde) {
  if (g.n < 2) return std::nullopt;
  const auto symmetry = Translation::of(g);
  const bool twin = eta > 0;
  // as many unknowns, or a few more
  const double n = g.n, most = symmetry ? (twin ? 1.5 : 0.5) * n : (twin ? 2 : 0.5) * n * n;
  if (most > kMostUnknowns) return std::nullopt;
  // in units of the busiest worker's exchanges
  std::vector<double> rates(at(g.n));
  for (const Edge& e : g.edges) rates[at(e.a)] += e.rate, rates[at(e.b)] += e.rate;
  const double unit = std::ranges::max(rates);
  if (!(unit > 0)) return std::nullopt;
  Graph scaled = g;
  for (Edge& e : scaled.edges) e.rate /= unit;
  const double step[2] = {alpha, alpha_tilde};
  const Moments moments(scaled, symmetry, twin);
  const Square m = second_moments(scaled, moments, eta / unit, step);
  // all workers independent, their mean taken off
  std::vector<double> x(at(m.n));
  for (int i = 0; i < m.n; ++i) x[at(i)] = (moments.entry(i).p == moments.entry(i).q) - 1 / n;
  // Roughly first, from far on the right, and closer each time; a hundred rounds leave only what
  // lies within a twentieth of the way.
  double shift = fastest_growth(step) + 0.5, rough = 0;
  do {
    rough = rightmost(m, shift, 100, x);
    shift = rough + std::max(0.1 * (shift - rough), 0.1 * std::abs(rough) + 1e-4);
  } while (shift - rough > 0.11 * std::abs(rough) + 2e-4);
  return -unit * rightmost(m, shift, 4000, x);
}

}  // namespace gossamer::dist
