// A solution of unit 7 of the course: a graph that heals.
#include <algorithm>
#include <vector>

#include "check.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/graph/graph.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: a worker of a ring of 16 dies, and nobody closes the gap: 15 workers in a chain.
// What is their chi1? (The ring of 16: 13.1.)
const double prediction = 42.7;

// The graph without the worker `dead`: none of its edges is left, the others still reach each
// other, and all rates together are (workers alive) / 2 * rate_of_a_worker again. graph.n stays:
// workers keep their ranks. `alive` counts those that are left.
Graph heal(const Graph& graph, int dead, int alive, double rate_of_a_worker) {
  Graph healed{graph.name, graph.n, {}};
  for (const Edge& e : graph.edges)
    if (e.a != dead && e.b != dead) healed.edges.push_back(e);
  const std::vector<int> left = graph.neighbours(dead);
  for (std::size_t k = 0; k + 1 < left.size(); ++k)
    if (healed.rate(left[k], left[k + 1]) == 0) healed.edges.push_back({left[k], left[k + 1], 1});
  double rates = 0;
  for (const Edge& e : healed.edges) rates += e.rate;
  for (Edge& e : healed.edges) e.rate *= rate_of_a_worker * alive / 2 / rates;
  return healed;
}
