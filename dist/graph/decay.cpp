// The exact exponent of randomised pairwise gossip, with and without the twin of A2CiD2. Second
// moments of all pairs of workers follow a closed linear equation, whatever the distribution; its
// slowest mode is the exponent. Translation-invariant graphs need one moment per distance only.
#include <algorithm>
#include <cmath>
#include <utility>

#include "gossamer/dist/graph/spectrum.h"
#include "gossamer/dist/graph/translation.h"

namespace gossamer::dist {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

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
  const Moments moments(g, symmetry, twin);
  const Square m = second_moments(g, moments, eta, {alpha, alpha_tilde});
  // all workers independent, their mean taken off
  std::vector<double> x(at(m.n));
  for (int i = 0; i < m.n; ++i) x[at(i)] = (moments.entry(i).p == moments.entry(i).q) - 1 / n;
  // Roughly first, from far on the right; then from close by.
  const double rough = rightmost(m, 0.5, 400, x);
  return -rightmost(m, rough + 0.1 * std::abs(rough) + 1e-4, 4000, x);
}

}  // namespace gossamer::dist
