// Graphs that look the same from every worker because moving all workers along is a symmetry
// (Cayley graphs of Z_a x Z_b x …: ring, complete, exponential, torus, hypercube). Their spectra
// are Fourier sums, exact for thousands of workers. Used by the constants and by theory.cpp.
#pragma once

#include <optional>
#include <vector>

#include "gossamer/dist/graph/graph.h"

namespace gossamer::dist {

class Translation {
 public:
  struct Step {  // from worker 0
    int to;
    double rate;
  };

  // The symmetry of g, if it has one of these: a cycle, a hypercube, a torus. Names play no part.
  // Every worker must have edges (or n be 1).
  static std::optional<Translation> of(const Graph& g);

  const std::vector<Step>& steps() const { return steps_; }  // ascending
  int difference(int a, int b) const;  // the worker that stands to 0 as b to a
  // The mode k = 0 … n-1 (0: constant) at `worker`: 1 - cos of its phase there, without
  // cancellation.
  double fall(int k, int worker) const;
  std::vector<double> laplacian_eigenvalues() const;  // of mode 0 … n-1, in this order

 private:
  Translation(int n, std::vector<int> factors);
  bool fits(const Graph& g);
  int n_;
  // workers are numbers with these digits, the last one fastest
  std::vector<int> factors_;
  std::vector<double> falls_;  // 1 - cos(2 pi j / n)
  std::vector<Step> steps_;
};

}  // namespace gossamer::dist
