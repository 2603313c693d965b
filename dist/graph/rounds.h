// Rounds: which workers mix in round k of a synchronous method. Pure functions of (name, n, k);
// no clock, no network.
//
// Round k has a mixing matrix W: x_i <- W_ii x_i + sum_j W_ij x_j. Columns sum to 1 always, so the
// sum over workers is kept; rows too, except where the method says otherwise (push-sum on directed
// graphs).
// Threads: any, also for one Rounds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/dist/graph/graph.h"

namespace gossamer::dist {

struct Neighbour {
  int worker = 0;
  double weight = 0;
  bool operator==(const Neighbour&) const = default;
};

// One round as one worker sees it.
struct Round {
  double own = 1;             // W_ii
  std::vector<Neighbour> in;  // the workers whose values it needs, with W_ij; ascending
  // the workers that need its value, with W_ji: their shares of it; ascending. own + these: 1.
  // Symmetric rounds: the same as `in`
  std::vector<Neighbour> out;
  bool operator==(const Round&) const = default;
};

class Rounds {
 public:
  virtual ~Rounds() = default;
  virtual const std::string& name() const = 0;
  virtual int workers() const = 0;
  virtual i64 period() const = 0;  // round(i, k) == round(i, k + period)
  virtual bool directed() const = 0;
  // k >= 0; costs as much as the answer is long, whatever n is
  virtual Round round(int worker, i64 k) const = 0;
};

// Every graph of graph.h with Metropolis weights, W_ij = 1/(1 + max(deg_i, deg_j)) (Xiao, Boyd
// and Lall 2005): on the ring 1/3, 1/3, 1/3; on the complete graph 1/n. Its rates play no part.
// Only `aer` is not mixed as a fixed graph, but as below.
//   ring-matching          Odd/even: (0,1) (2,3) …, then (1,2) … (n-1,0). Odd n: one is left out,
//                          by turns: n-1, n-2, …, 0.
//   one-peer-exp           i XOR 2^k, k = 0 … ceil(log2 n)-1: the exact mean after log2 n rounds if
//                          n is a power of two. Any other n: a worker whose partner does not exist
//                          is left out; each time all powers have been used, the roles move on by
//                          one worker.
//   one-peer-exp-directed  Half to i + 2^k mod n, k = 0 … floor(log2(n-1)) (SGP, Assran et al.
//                          2019).
//   aer, aer:L             Alternating exponential ring of n/L nodes, a power of two, with L
//                          workers each (Decent-DP, ICLR 2025): `per_node` if no :L is given.
//                          Exact mean after 2 log2(n/L) rounds; in each, half of the pairs of
//                          nodes use the network.
//   base, base:K           Base-(K+1) graph: the exact mean of any n after few rounds, in which
//                          each worker meets at most K others (1 if no :K is given);
//                          base_rounds.h.
//   epidemic, epidemic:S, epidemic:S:SEED
//                          EL-Oracle (de Vos et al. 2023, arXiv 2310.01972): in each round a
//                          random graph in which all have S neighbours (2 if no :S is given),
//                          weights 1/(S+1). The squared distance to the mean shrinks to (1 -
//                          S/(n-1))/(S+1) of it, on average. After 1,024 rounds they repeat.
// ConfigError: an unknown name (lists the known), n that the name can't have (says which it can).
std::shared_ptr<const Rounds> make_rounds(const std::string& name, int n, int per_node = 1);
// a fixed graph, Metropolis weights; a worker without edges keeps what it has
std::shared_ptr<const Rounds> make_rounds(const Graph&);
// those that make_rounds() takes as they are, without :D or :PATH
std::vector<std::string> rounds_names();
// with or without an argument behind a colon
bool known_rounds(const std::string& name);

std::vector<double> mixing_matrix(const Rounds&, i64 k);  // n x n, row-major
// ConfigError naming round and workers unless every round is mutual (a worker in `in` has this one
// in `out`) and keeps the sum; rows must sum to 1 and weights be symmetric too if it is not
// directed(). Very long periods: about four million (worker, round), evenly spread.
void validate(const Rounds&);

}  // namespace gossamer::dist
