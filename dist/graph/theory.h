// What theory says about a graph before anything runs: how fast synchronous rounds mix, and how
// fast randomised pairwise gossip agrees.
// Threads: any.
#pragma once

#include <optional>
#include <vector>

#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/graph/linear_algebra.h"
#include "gossamer/dist/graph/rounds.h"

namespace gossamer::dist {

// sum over edges of rate (e_a - e_b)(e_a - e_b)^T
Square laplacian(const Graph&);
// ascending; by Fourier where the graph is translation-invariant, else ~3 n^3
std::vector<double> laplacian_eigenvalues(const Graph&);

struct Mixing {
  // by which |x - mean| shrinks in a round, in the long run; 0: the exact mean after `rounds`
  double rho = 0;
  double gap = 1;  // 1 - rho, without cancellation where W is constant
  // until |x - mean| is a millionth: ceil(ln 1e-6 / ln rho); 0: never
  i64 rounds = 1;
};
// One W for ever: rho is its second eigenvalue modulus. Rounds that change: (spectral radius of a
// period's product on what sums to 0)^(1/period), exact for up to 128 workers; beyond, the mean
// over some thousand rounds (two digits), and empty if that does not settle.
std::optional<Mixing> mixing(const Rounds&);

// The eigenvalues of a W that is symmetric and always the same, descending; the first is 1. Throws
// ConfigError for other rounds.
std::vector<double> mixing_eigenvalues(const Rounds&);

// Xi^2 / (gamma sigma)^2, Xi^2 = mean |x_i - mean|^2 per coordinate, where decentralised SGD with
// such a W settles if gradients are noise of variance sigma^2: sum over k >= 2 of 1/(1 - l_k^2) / n
// for x <- W x - gamma g, of l_k^2/(1 - l_k^2) / n for x <- W (x - gamma g).
double noise_distance(const Rounds&, bool adapt_then_combine);

// The exponent s of E|x - mean|^2 ~ exp(-s t) under randomised pairwise gossip (Poisson exchanges
// at the edges' rates, no gradients): minus the largest eigenvalue of the linear operator that
// moves second moments. eta = 0, alpha = alpha_tilde = 1/2: plain gossip. Negative: it grows. Empty
// if nobody exchanges, or if it takes too much time to be exact: more than 532 workers on
// translation-invariant graphs (plain: 1600); on others more than 20 (plain: 40).
std::optional<double> decay_exponent(const Graph&, double eta, double alpha, double alpha_tilde);

}  // namespace gossamer::dist
