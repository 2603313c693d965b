// The constants of A2CiD2 from the spectrum of a graph's Laplacian (algorithms: NeurIPS 2023,
// section 3; Even et al. 2021).
#include <algorithm>
#include <cmath>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/graph/sparse_laplacian.h"
#include "gossamer/dist/graph/translation.h"

namespace gossamer::dist {
namespace {

// Only the workers that have edges, numbered anew in the same order.
Graph without_the_dead(const Graph& g) {
  std::vector<int> number(static_cast<std::size_t>(g.n));
  const auto of = [&](int worker) -> int& { return number[static_cast<std::size_t>(worker)]; };
  for (const Edge& e : g.edges) of(e.a) = of(e.b) = 1;
  Graph out{g.name, 0, g.edges};
  for (int& place : number)
    if (place) place = out.n++;
  for (Edge& e : out.edges) e.a = of(e.a), e.b = of(e.b);
  return out;
}

// The smallest eigenvalue above 0. ConfigError if there are several zeros: the graph falls apart.
double smallest_positive(const std::vector<double>& eigenvalues, const Graph& g) {
  const double zero = 1e-9 * *std::ranges::max_element(eigenvalues);
  double smallest = 2 * zero / 1e-9;
  int zeros = 0;
  for (const double value : eigenvalues) {
    if (value < zero)
      ++zeros;
    else
      smallest = std::min(smallest, value);
  }
  check<ConfigError>(zeros == 1, "graph ", g.name, ": it falls apart into ", zeros,
                     " pieces; add edges until all workers are connected");
  return smallest;
}

// of the Laplacian; the largest effective resistance of an edge
struct Extremes {
  double lambda2 = 0, resistance = 0;
};

Extremes by_fourier(const Graph& g, const Translation& t) {
  const std::vector<double> values = t.laplacian_eigenvalues();
  Extremes out{smallest_positive(values, g)};
  for (const Translation::Step& step : t.steps()) {
    double r = 0;
    for (int k = 1; k < g.n; ++k)
      r += 2 * t.fall(k, step.to) / values[static_cast<std::size_t>(k)] / g.n;
    out.resistance = std::max(out.resistance, r);
  }
  return out;
}

Extremes by_elimination(const Graph& g) {
  const SparseLaplacian l(g);
  return {l.smallest_positive(), l.largest_resistance()};
}

}  // namespace

GraphConstants constants(const Graph& whole) {
  const Graph g = without_the_dead(whole);
  if (g.n < 2) return {};
  const auto symmetry = Translation::of(g);
  const auto [lambda2, resistance] = symmetry ? by_fourier(g, *symmetry) : by_elimination(g);
  GraphConstants out;
  out.chi1 = 1 / lambda2;
  out.chi2 = resistance / 2;
  out.eta = 1 / (2 * std::sqrt(out.chi1 * out.chi2));
  out.alpha = 0.5;
  out.alpha_tilde = 0.5 * std::sqrt(out.chi1 / out.chi2);
  return out;
}

}  // namespace gossamer::dist
