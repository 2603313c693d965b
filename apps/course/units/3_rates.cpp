// Unit 3 of the course: the two numbers of a graph. Fill the hole, then
//   gossamer course check 3
#include "check.h"
#include "gossamer/dist/graph/theory.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: on a ring of 64, by which factor is A2CiD2's time, sqrt(chi1 chi2), shorter than
// plain gossip's, chi1?
const double prediction = NAN;

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
  // The hole. The resistance of the edge (a, b): v_a - v_b for the potentials v that solve L v = b
  // with b_a = 1, b_b = -1. L is singular (its rows sum to 0); L with 1/n added to every entry is
  // not, and has the same solution with mean 0.
  (void)graph;
  return chi;
}

// ---- The test. `gossamer course check` uses its own copy of what follows.

int main() {
  using course::expect;
  for (const char* name : {"ring", "chain", "star", "complete", "hypercube", "tree"})
    for (const int n : {2, 8, 16}) {
      const Graph graph = make_graph(name, n);
      const GraphConstants wanted = constants(graph);
      const Chi chi = chi_of(graph);
      const std::string on = std::string(" of the ") + name + " of " + std::to_string(n) + " is ";
      const auto eigen = symmetric_eigenvalues(laplacian(graph));
      std::string why = "it is " + course::shown_beside(chi.one, wanted.chi1) + "; ";
      if (chi.one > 1e6 || chi.one < 0 || !std::isfinite(chi.one))
        why +=
            "the first eigenvalue is 0, for workers that agree stay where they are: take the "
            "second";
      else if (course::near(chi.one, 1 / eigen.back(), 1e-9))
        why +=
            "that is 1 / the largest eigenvalue; the slowest wave belongs to the smallest above "
            "0";
      else
        why += "1 / the second of the ascending eigenvalues of laplacian(graph)";
      expect(course::near(chi.one, wanted.chi1, 1e-9),
             "chi1" + on + course::shown_beside(wanted.chi1, chi.one), why);
      why = "it is " + course::shown_beside(chi.two, wanted.chi2) + "; ";
      why += course::near(chi.two, 2 * wanted.chi2, 1e-9) ? "half of the resistance is wanted"
             : chi.two > wanted.chi2 + 1e-9
                 ? "the largest over edges, not over all pairs of workers"
                 : "the largest over all edges of (v_a - v_b) / 2";
      expect(course::near(chi.two, wanted.chi2, 1e-9),
             "chi2" + on + course::shown_beside(wanted.chi2, chi.two), why);
    }
  course::done("chi1 and chi2 of six graphs of three sizes");
  const GraphConstants ring = constants(make_graph("ring", 64));
  course::predicted(prediction, std::sqrt(ring.chi1 / ring.chi2), .1, "the factor on a ring of 64");
  return course::end();
}
