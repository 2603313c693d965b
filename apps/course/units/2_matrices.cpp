// Unit 2 of the course: a matrix that says who mixes with whom. Fill the hole, then
//   gossamer course check 2
#include "check.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/graph/theory.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: after how many rounds are 64 workers on a ring a millionth as far apart?
const double prediction = NAN;

// W with x_i <- sum over j of W(i, j) x_j: Metropolis weights. W(i, j) = 1 / (1 + the larger of the
// degrees of i and j) for neighbours, 0 for other pairs, and W(i, i) is what is left.
Square metropolis(const Graph& graph) {
  Square w(graph.n);
  // The hole: w(i, j) of all pairs. graph.neighbours(i) lists the neighbours of i.
  return w;
}

// ---- The test. `gossamer course check` uses its own copy of what follows.

int main() {
  using course::expect;
  for (const char* name : {"ring", "star", "chain", "tree", "exponential", "complete"}) {
    const Graph graph = make_graph(name, 16);
    const Square w = metropolis(graph);
    const std::string on = std::string(" on the ") + name + " of 16";
    expect(w.n == 16, "W is 16 x 16" + on, "return an n x n matrix");
    double row = 0, column = 0, asymmetry = 0, least = 1, own_part = 1, elsewhere = 0;
    for (int i = 0; i < w.n; ++i) {
      double along = 0, down = 0;
      for (int j = 0; j < w.n; ++j) {
        along += w(i, j), down += w(j, i);
        asymmetry = std::fmax(asymmetry, std::abs(w(i, j) - w(j, i)));
        least = std::fmin(least, w(i, j));
        if (i != j && graph.rate(i, j) == 0) elsewhere = std::fmax(elsewhere, std::abs(w(i, j)));
      }
      own_part = std::fmin(own_part, w(i, i));
      row = std::fmax(row, std::abs(along - 1)), column = std::fmax(column, std::abs(down - 1));
    }
    expect(elsewhere == 0, "only neighbours mix" + on, "W(i, j) of two that share no edge is 0");
    expect(row < 1e-12, "rows sum to 1" + on,
           "workers that agree must stay where they are: W(i, i) is 1 minus the rest of row i");
    expect(column < 1e-12, "columns sum to 1: the mean is kept" + on,
           "column j says what becomes of x_j. With 1 / (1 + own degree) a leaf gives a hub more "
           "than it takes back: both ends of an edge must use the same weight, by the larger "
           "degree");
    expect(asymmetry < 1e-12, "W is symmetric" + on,
           "both ends of an edge must use the same weight, by the larger degree");
    expect(least >= 0, "no weight is negative" + on,
           "divide 1 by 1 + the larger of both degrees: neither by 1 + the smaller nor by a degree "
           "alone");
    expect(own_part > 1e-9, "a worker keeps a part of its own" + on,
           "W(i, i) is " + course::shown(own_part) +
               ": 1 + degree, not degree, so that something is left");
    const auto own = symmetric_eigenvalues(w);
    const double second = std::fmax(std::abs(own.front()), std::abs(own[own.size() - 2]));
    const double wanted = mixing(*make_rounds(name, 16))->rho;
    expect(course::near(second, wanted, 1e-9),
           "the second eigenvalue is " + course::shown_beside(wanted, second) + on,
           "it is " + course::shown_beside(second, wanted) +
               (course::near(second, 1, 1e-9)
                    ? ": W mixes nothing. Is 1 / (1 + degree) a division of whole numbers, which "
                      "gives 0?"
                    : ": the mean is kept, but these are not Metropolis weights, which go by the "
                      "degrees of these two, not of the whole graph"));
  }
  course::done(
      "W mixes neighbours only, keeps the mean, and agrees as fast as the library's, on six "
      "graphs");
  course::predicted(prediction, static_cast<double>(mixing(*make_rounds("ring", 64))->rounds), .1,
                    "the rounds on a ring of 64");
  return course::end();
}
