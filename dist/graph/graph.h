// Graphs of workers: who may average with whom, and how often. They are pure functions of a name
// and the number n of workers. Also A2CiD2's constants (NeurIPS 2023), which follow from a graph.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gossamer::dist {

// Two workers, a < b. rate: exchanges per unit of time, the mean duration of a gradient.
struct Edge {
  int a = 0, b = 0;
  double rate = 1;
};

struct Graph {
  std::string name;
  int n = 1;
  std::vector<Edge> edges;
  std::vector<int> neighbours(int worker) const;  // ascending
  double rate(int a, int b) const;                // 0 if there is no such edge
};

// ring, chain, complete, star, tree (balanced binary), exponential (+-2^k), hypercube, torus,
// random-regular[:D[:SEED]] (D neighbours each, 4 if not given; connected, the same for every
// worker that asks), aer[:L] (alternating exponential ring of nodes with L workers, `per_node` if
// not given; edges weigh as often as its rounds mix them), file:PATH (see parse_graph). Rates are
// scaled so that the whole network does rate * n / 2 exchanges per unit of time (each worker `rate`
// on average). ConfigError: unknown name (lists the known), n that the graph can't have (says which
// it can).
Graph make_graph(const std::string& name, int n, double rate = 1, int per_node = 1);
// The names that make_graph() takes without an argument (":D", ":PATH").
std::vector<std::string> graph_names();
// Whether it is such a name, or one with an argument behind a colon.
bool known_graph(const std::string& name);

// A graph from the text of a file: "a b [rate]" a line, workers from 0, # begins a comment, a
// missing rate is 1. Rates, 1e-6 to 1e6, are relative to each other: they are scaled as those of
// make_graph(). ConfigError names `path` and line.
Graph parse_graph(std::string_view text, const std::string& path, int n, double rate = 1);

// ConfigError unless symmetric, connected, without loops and with positive rates.
void validate(const Graph&);
// What is left when `dead` workers are gone; the neighbours of a dead worker are joined so that the
// rest stays connected.
Graph heal(const Graph&, const std::vector<bool>& dead);
// The graph of this name over all workers but `gone`, for groups that grow and shrink: of as many
// nodes as there are workers, whose i-th is the i-th worker. Where no graph of this name has that
// many nodes (hypercube), the next larger one that there is, healed, and where there is none up to
// all.n, as the graph of a file, `all` healed. all: of make_graph(), over all places. per_node: as
// for make_graph().
Graph graph_of_living(const Graph& all, const std::vector<bool>& gone, int per_node = 1);
// 32 bits that name the set of workers that are gone, the same on every worker; 0: nobody is.
std::uint32_t name_of_set(const std::vector<bool>& gone);

struct GraphConstants {
  double chi1 = 0, chi2 = 0, eta = 0, alpha = 0.5, alpha_tilde = 0.5;
};
// chi1 = 1/lambda_2, chi2 = half the largest effective resistance of an edge, eta = 1/(2 sqrt(chi1
// chi2)), alpha~ = sqrt(chi1/chi2)/2, of the Laplacian over the workers that have edges.
GraphConstants constants(const Graph&);

}  // namespace gossamer::dist
