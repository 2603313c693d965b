// The Laplacian of any graph, factored by eliminating workers one by one: its extreme eigenvalues
// and effective resistances, for thousands of workers if the graph is sparse. Used where a graph
// has no translation (translation.h).
#pragma once

#include <vector>

#include "gossamer/dist/graph/graph.h"

namespace gossamer::dist {

class SparseLaplacian {
 public:
  // Every worker must have edges (or n be 1). ConfigError if the graph falls apart: says into how
  // many pieces.
  explicit SparseLaplacian(const Graph& g);

  double smallest_positive() const;  // eigenvalue lambda_2
  // eigenvalue, from below, where spectra are dense at the end to some digits
  double largest() const;
  // effective, over the edges: (e_a - e_b)^T L^+ (e_a - e_b)
  double largest_resistance() const;

 private:
  struct Link {
    int to;
    double weight;
  };
  using Vector = std::vector<double>;
  Vector apply(const Vector& x) const;  // L x
  Vector solve(Vector b) const;         // L^+ b, for b that sums to 0

  // Workers are numbered in the order in which they are eliminated; links_[v] leads to those
  // eliminated later, ascending.
  const Graph* graph_;
  std::vector<int> number_;
  std::vector<std::vector<Link>> links_;
  Vector weight_;  // sum over links_[v]
};

}  // namespace gossamer::dist
