// A solution of unit 3 of the course: the two numbers of a graph.
#include "check.h"
#include "gossamer/dist/graph/theory.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: on a ring of 64, by which factor is A2CiD2's time, sqrt(chi1 chi2), shorter than
// plain gossip's, chi1?
const double prediction = 14.5;

struct Chi {
  double one = 0;  // 1 / the smallest eigenvalue of the Laplacian above 0
  double two = 0;  // half of the largest resistance of an edge
};
// The Laplacian is laplacian(graph), a Square: l(i, j) is an entry, l.values are all of them.
// symmetric_eigenvalues(l) ascend. LinearSystem(l) solves l x = b by solve(b), where b and x are
// std::vector<double>. graph.edges are the edges, each with its ends a and b and its rate; graph.n
// is the number of workers.
Chi chi_of(const Graph& graph) {
  Chi chi;
  // The resistance of the edge (a, b): v_a - v_b for the potentials v that solve L v = b with b_a =
  // 1, b_b = -1. L is singular (its rows sum to 0); L with 1/n added to every entry is not, and has
  // the same solution with mean 0.
  const Square l = laplacian(graph);
  chi.one = 1 / symmetric_eigenvalues(l)[1];
  Square raised = l;
  for (double& v : raised.values) v += 1.0 / graph.n;
  const LinearSystem system(raised);
  for (const Edge& e : graph.edges) {
    std::vector<double> b(static_cast<std::size_t>(graph.n));
    b[static_cast<std::size_t>(e.a)] = 1, b[static_cast<std::size_t>(e.b)] = -1;
    const auto v = system.solve(b);
    chi.two = std::max(chi.two,
                       (v[static_cast<std::size_t>(e.a)] - v[static_cast<std::size_t>(e.b)]) / 2);
  }
  return chi;
}
