// A solution of unit 2 of the course: a matrix that says who mixes with whom.
#include "check.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/graph/theory.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: after how many rounds are 64 workers on a ring a millionth as far apart?
const double prediction = 4297;

// W with x_i <- sum over j of W(i, j) x_j: Metropolis weights. W(i, j) = 1 / (1 + the larger of the
// degrees of i and j) for neighbours, 0 for other pairs, and W(i, i) is what is left.
Square metropolis(const Graph& graph) {
  Square w(graph.n);
  for (int i = 0; i < graph.n; ++i) {
    const auto mine = graph.neighbours(i);
    w(i, i) = 1;
    for (const int j : mine) {
      const auto degree = std::max(mine.size(), graph.neighbours(j).size());
      w(i, j) = 1.0 / (1.0 + static_cast<double>(degree));
      w(i, i) -= w(i, j);
    }
  }
  return w;
}
