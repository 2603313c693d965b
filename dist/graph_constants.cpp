// The constants of A2CiD2 from the spectrum of a graph's Laplacian (algorithms: NeurIPS 2023, section 3; Even et al. 2021).
#include <algorithm>
#include <cmath>
#include <map>

#include "gossamer/core/error.h"
#include "gossamer/dist/graph.h"

namespace gossamer::dist {
namespace {

// A dense symmetric matrix; small: one row a worker.
struct Square {
  int n;
  std::vector<double> values;
  explicit Square(int size) : n(size), values(static_cast<std::size_t>(size) * static_cast<std::size_t>(size)) {}
  double& operator()(int i, int j) { return values[static_cast<std::size_t>(i) * static_cast<std::size_t>(n) + static_cast<std::size_t>(j)]; }
};

// One Jacobi rotation: the plane (p, q) is turned so that a(p, q) becomes zero. Rows of v follow: v a v^T stays what it was.
void rotate(Square& a, Square& v, int p, int q) {
  const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
  const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1), s = t * c;
  for (int k = 0; k < a.n; ++k) {
    const double kp = a(k, p), kq = a(k, q);
    a(k, p) = c * kp - s * kq;
    a(k, q) = s * kp + c * kq;
  }
  for (int k = 0; k < a.n; ++k) {
    const double pk = a(p, k), qk = a(q, k);
    a(p, k) = c * pk - s * qk;
    a(q, k) = s * pk + c * qk;
    const double vp = v(p, k), vq = v(q, k);
    v(p, k) = c * vp - s * vq;
    v(q, k) = s * vp + c * vq;
  }
}

// Eigenvalues end on the diagonal of a, eigenvectors in the rows of v. Cyclic Jacobi: slow, short, and exact to rounding.
void diagonalise(Square& a, Square& v) {
  for (int i = 0; i < a.n; ++i) v(i, i) = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, all = 0;
    for (int i = 0; i < a.n; ++i)
      for (int j = 0; j < a.n; ++j) (i == j ? all : off) += a(i, j) * a(i, j);
    if (off <= 1e-26 * all) return;
    for (int p = 0; p < a.n; ++p)
      for (int q = p + 1; q < a.n; ++q)
        if (std::abs(a(p, q)) > 1e-300) rotate(a, v, p, q);
  }
}

}  // namespace

GraphConstants constants(const Graph& g) {
  std::map<int, int> row;                                  // workers that have edges
  for (const Edge& e : g.edges) row.emplace(e.a, 0), row.emplace(e.b, 0);
  int n = 0;
  for (auto& [worker, index] : row) index = n++;
  if (n < 2) return {};
  Square laplacian(n), vectors(n);
  for (const Edge& e : g.edges) {
    const int a = row[e.a], b = row[e.b];
    laplacian(a, a) += e.rate;
    laplacian(b, b) += e.rate;
    laplacian(a, b) -= e.rate;
    laplacian(b, a) -= e.rate;
  }
  diagonalise(laplacian, vectors);
  double largest = 0, lambda2 = 0;
  for (int k = 0; k < n; ++k) largest = std::max(largest, laplacian(k, k));
  int zeros = 0;
  for (int k = 0; k < n; ++k) {
    if (laplacian(k, k) < 1e-9 * largest) { ++zeros; continue; }
    if (lambda2 == 0 || laplacian(k, k) < lambda2) lambda2 = laplacian(k, k);
  }
  check<ConfigError>(zeros == 1, "graph ", g.name, ": it falls apart into ", zeros, " pieces; add edges until all workers are connected");
  // Effective resistance of an edge: (e_a - e_b)^T L^+ (e_a - e_b), from the eigenvectors.
  double resistance = 0;
  for (const Edge& e : g.edges) {
    double r = 0;
    for (int k = 0; k < n; ++k) {
      if (laplacian(k, k) < 1e-9 * largest) continue;
      const double difference = vectors(k, row[e.a]) - vectors(k, row[e.b]);
      r += difference * difference / laplacian(k, k);
    }
    resistance = std::max(resistance, r);
  }
  GraphConstants out;
  out.chi1 = 1 / lambda2;
  out.chi2 = resistance / 2;
  out.eta = 1 / (2 * std::sqrt(out.chi1 * out.chi2));
  out.alpha = 0.5;
  out.alpha_tilde = 0.5 * std::sqrt(out.chi1 / out.chi2);
  return out;
}

}  // namespace gossamer::dist
