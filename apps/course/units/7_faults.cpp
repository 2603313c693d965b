// Unit 7 of the course: a graph that heals. Fill the hole, then
//   gossamer course check 7
#include <algorithm>
#include <vector>

#include "check.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/graph/graph.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: a worker of a ring of 16 dies, and nobody closes the gap: 15 workers in a chain.
// What is their chi1? (The ring of 16: 13.1.)
const double prediction = NAN;

// The graph without the worker `dead`: none of its edges is left, the others still reach each
// other, and all rates together are (workers alive) / 2 * rate_of_a_worker again. graph.n stays:
// workers keep their ranks. `alive` counts those that are left.
Graph heal(const Graph& graph, int dead, int alive, double rate_of_a_worker) {
  Graph healed{graph.name, graph.n, {}};
  // The hole. An edge is {a, b, rate} with a < b, and there is at most one between two workers.
  (void)dead, (void)alive, (void)rate_of_a_worker;
  return healed;
}

// ---- The test. `gossamer course check` uses its own copy of what follows.

// How many groups of workers that reach each other there are among the living.
int groups(const Graph& graph, const std::vector<bool>& dead) {
  std::vector<int> root(static_cast<std::size_t>(graph.n));
  for (int i = 0; i < graph.n; ++i) root[static_cast<std::size_t>(i)] = i;
  const auto find = [&](int i) {
    while (root[static_cast<std::size_t>(i)] != i) i = root[static_cast<std::size_t>(i)];
    return i;
  };
  for (const Edge& e : graph.edges) root[static_cast<std::size_t>(find(e.a))] = find(e.b);
  int count = 0;
  for (int i = 0; i < graph.n; ++i)
    count += !dead[static_cast<std::size_t>(i)] && root[static_cast<std::size_t>(i)] == i;
  return count;
}

int main() {
  using course::expect;
  Rng random(7);
  for (const char* name : {"ring", "chain", "star", "tree", "exponential", "complete"})
    for (int run = 0; run < 50; ++run) {
      constexpr int n = 12;
      Graph graph = make_graph(name, n);
      std::vector<bool> dead(n);
      for (int alive = n - 1; alive >= 2; --alive) {
        int gone = 0;
        do gone = static_cast<int>(random.below(n));
        while (dead[static_cast<std::size_t>(gone)]);
        dead[static_cast<std::size_t>(gone)] = true;
        const Graph before = graph;
        const double rate_of_a_worker = 1 + run % 3, wanted = alive / 2.0 * rate_of_a_worker;
        graph = heal(before, gone, alive, rate_of_a_worker);
        const std::string on = std::string(" (") + name + ", worker " + std::to_string(gone) +
                               " dies, " + std::to_string(alive) + " are left)";
        double rates = 0;
        for (std::size_t k = 0; k < graph.edges.size(); ++k) {
          const Edge& e = graph.edges[k];
          const auto gone_at = [&](int i) { return dead[static_cast<std::size_t>(i)]; };
          expect(e.a >= 0 && e.a < e.b && e.b < n, "edges are {a, b} with a < b" + on,
                 "order the two ends of a new edge");
          expect(!gone_at(e.a) && !gone_at(e.b), "the dead have no edges" + on,
                 "leave out each edge with a == dead or b == dead");
          expect(e.rate > 0, "rates are above 0" + on, "a new edge needs a rate too");
          for (std::size_t other = 0; other < k; ++other)
            expect(graph.edges[other].a != e.a || graph.edges[other].b != e.b,
                   "there is one edge between two workers" + on,
                   "an edge that is there already serves as well: graph.rate(a, b) > 0");
          rates += e.rate;
        }
        for (const Edge& e : before.edges)
          expect(e.a == gone || e.b == gone || graph.rate(e.a, e.b) > 0,
                 "edges of the living stay" + on, "only edges of the dead worker go");
        const std::vector<int> left = before.neighbours(gone);
        std::size_t added = 0;
        for (const Edge& e : graph.edges) {
          if (before.rate(e.a, e.b) > 0) continue;
          ++added;
          expect(std::ranges::count(left, e.a) && std::ranges::count(left, e.b),
                 "new edges join neighbours of the dead worker" + on,
                 "the edge of " + std::to_string(e.a) + " and " + std::to_string(e.b) +
                     " is new, and one of the two had no edge with " + std::to_string(gone));
        }
        const int parts = groups(graph, dead);
        expect(parts == 1, "the living reach each other" + on,
               "they fall into " + std::to_string(parts) +
                   " groups: join the neighbours of the dead worker with each other");
        expect(added <= left.size(), "there are no more new edges than needed" + on,
               std::to_string(added) + " are new, for " + std::to_string(left.size()) +
                   " neighbours: join them one to the next, not each to all");
        expect(course::near(rates, wanted, 1e-9),
               "all rates together are " + course::shown(wanted) + on,
               course::near(rates, alive / 2.0, 1e-9)
                   ? "they are " + course::shown(rates) + ": rate_of_a_worker is " +
                         course::shown(rate_of_a_worker) + " here, and counts too"
                   : "they are " + course::shown(rates) +
                         ": multiply all by what is missing, or the survivors exchange less and "
                         "less");
      }
    }
  course::done("six graphs, 50 times ten deaths: never two groups, never a slower network");
  course::predicted(prediction, constants(make_graph("chain", 15)).chi1, .1, "chi1");
  return course::end();
}
