// Sums on their way along a tree (RelaySGD, Vogels et al. 2021, arXiv 2110.04175): each worker
// hands on to each neighbour its own vector and what all others have handed to it, so after as many
// rounds as the tree is wide everybody has the mean of all, of which the distant ones are old:
//   m_ij = h_i + sum_(k != j) m_ki,   n_ij = 1 + sum_(k != j) n_ki       of the round before
//   x_i  = (h_i + sum_j m_ji + (n - N_i) h_i) / n,   N_i = 1 + sum_j n_ji   of this round
// Whoever has not been heard of yet counts as h_i. Block: a Tensor (f32) or a vector of doubles;
// workers and simulator compute the same.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/graph/rounds.h"

namespace gossamer::dist {

// Where relay-sgd has a second tree: the first with the workers in reverse order, so that who is
// inside of one is mostly outside of the other.
inline int mirrored(int worker, int workers) { return workers - 1 - worker; }
// ConfigError unless these are the same tree in every round.
void check_tree(const std::string& method, const Rounds&);

inline void relay_copy(Tensor& to, const Tensor& from) { to.copy_from(from); }
inline void relay_add(Tensor& to, const Tensor& from) { axpy(to, 1, from); }
inline void relay_scale(Tensor& to, double by) { scale(to, static_cast<float>(by)); }
inline void relay_copy(std::vector<double>& to, const std::vector<double>& from) { to = from; }
inline void relay_add(std::vector<double>& to, const std::vector<double>& from) {
  for (std::size_t k = 0; k < to.size(); ++k) to[k] += from[k];
}
inline void relay_scale(std::vector<double>& to, double by) {
  for (double& each : to) each *= by;
}

// One worker's place in the tree: what came last from each neighbour. What is lost changes nothing
// there, so the sum of the round before stands in.
template <class Block>
class RelayPlace {
 public:
  struct Link {
    int peer = 0;
    Block sum;
    double count = 0;  // of the workers in it
  };
  explicit RelayPlace(std::vector<Link> links = {}) : links_(std::move(links)) {}
  std::vector<Link>& links() { return links_; }
  std::size_t link_of(int peer) const {
    return static_cast<std::size_t>(std::ranges::find(links_, peer, &Link::peer) - links_.begin());
  }

  // sum <- m_(this, peer); returns n_(this, peer)
  double message(int peer, const Block& h, Block& sum) const {
    relay_copy(sum, h);
    double count = 1;
    for (const Link& link : links_) {
      if (link.peer == peer) continue;
      relay_add(sum, link.sum);
      count += link.count;
    }
    return count;
  }
  void arrived(int peer, const Block& sum, double count) {
    Link& link = links_[link_of(peer)];
    relay_copy(link.sum, sum);
    link.count = count;
  }
  // h <- x; n: of all workers
  void average(Block& h, int n) const {
    double missing = n - 1;
    for (const Link& link : links_) missing -= link.count;
    relay_scale(h, 1 + missing);
    for (const Link& link : links_) relay_add(h, link.sum);
    relay_scale(h, 1.0 / n);
  }

 private:
  std::vector<Link> links_;
};

}  // namespace gossamer::dist
