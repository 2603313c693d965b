// Graphs of workers: pure functions of (name, n), and the constants of A2CiD2 (NeurIPS 2023).
#pragma once

#include <string>
#include <vector>

namespace gossamer::dist {

struct Edge { int a = 0, b = 0; double rate = 1; };      // a < b; rate: exchanges per unit of time (a mean gradient duration)

struct Graph {
  std::string name;
  int n = 1;
  std::vector<Edge> edges;
  std::vector<int> neighbours(int worker) const;         // ascending
  double rate(int a, int b) const;                       // 0 if there is no such edge
};

// ring, chain, complete, exponential, star, hypercube, torus. Rates are scaled so that the whole network does rate * n / 2 exchanges per
// unit of time (each worker `rate` on average). ConfigError: unknown name (lists the known), n that the graph can't have (says which it can).
Graph make_graph(const std::string& name, int n, double rate = 1);
std::vector<std::string> graph_names();
// ConfigError unless symmetric, connected, without loops and with positive rates.
void validate(const Graph&);
// What is left when `dead` workers are gone; the neighbours of a dead worker are joined so that the rest stays connected.
Graph heal(const Graph&, const std::vector<bool>& dead);

struct GraphConstants { double chi1 = 0, chi2 = 0, eta = 0, alpha = 0.5, alpha_tilde = 0.5; };
// chi1 = 1/lambda_2, chi2 = half the largest effective resistance of an edge, eta = 1/(2 sqrt(chi1 chi2)), alpha~ = sqrt(chi1/chi2)/2,
// of the Laplacian over the workers that have edges.
GraphConstants constants(const Graph&);

}  // namespace gossamer::dist
