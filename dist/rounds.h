// Rounds: who mixes with whom in round k of a synchronous method. Pure functions of (name, n, k); no clock, no network.
//
// Round k has a mixing matrix W: x_i <- W_ii x_i + sum_j W_ij x_j. Columns sum to 1 always, so the sum over workers is kept; rows too,
// except where the method says otherwise (push-sum on directed graphs).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/dist/graph.h"

namespace gossamer::dist {

struct Neighbour { int worker = 0; double weight = 0; };

// One round as one worker sees it.
struct Round {
  double own = 1;                      // W_ii
  std::vector<Neighbour> in;           // whose values it needs, with W_ij; ascending
  std::vector<int> out;                // who needs its value, ascending; symmetric rounds: the workers of `in`
};

class Rounds {
 public:
  virtual ~Rounds() = default;
  virtual const std::string& name() const = 0;
  virtual int workers() const = 0;
  virtual i64 period() const = 0;                        // round(i, k) == round(i, k + period)
  virtual bool directed() const = 0;
  virtual Round round(int worker, i64 k) const = 0;      // k >= 0
};

// ring (1/3, 1/3, 1/3), complete, chain, star, torus, hypercube, exponential, random-regular:D and file:… with Metropolis weights;
// ring-matching (odd/even pairs), one-peer-exp (i XOR 2^k; any n by leaving someone out), one-peer-exp-directed (SGP: to i + 2^k mod n),
// aer (alternating exponential-ring, Decent-DP: `per_node` workers a node). ConfigError lists the known names, and says which n a name needs.
std::shared_ptr<const Rounds> make_rounds(const std::string& name, int n, int per_node = 1);
std::shared_ptr<const Rounds> make_rounds(const Graph&);         // a fixed graph, Metropolis weights
std::vector<std::string> rounds_names();

std::vector<double> mixing_matrix(const Rounds&, i64 k);         // n x n, row-major
// ConfigError naming round and workers unless every round is mutual (who is in `in` has this worker in `out`) and keeps the sum.
void validate(const Rounds&);

}  // namespace gossamer::dist
