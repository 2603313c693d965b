// Eigenvalues of symmetric matrices and linear systems. Inner loops run along rows, so that they
// vectorise.
#include "gossamer/dist/graph/linear_algebra.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// a becomes tridiagonal by reflections I - beta v v^T: `diagonal` and `beside` (beside[i] joins i
// and i+1).
void tridiagonalise(Square& a, std::vector<double>& diagonal, std::vector<double>& beside) {
  const int n = a.n;
  for (int k = 0; k + 2 < n; ++k) {
    const int m = n - k - 1;
    std::vector<double> v(a.row(k) + k + 1, a.row(k) + n);
    const double length = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
    beside[at(k)] = v[0];
    if (length > 0) {
      const double onto = v[0] > 0 ? -length : length;
      const double beta = 1 / (onto * (onto - v[0]));
      v[0] -= onto;
      beside[at(k)] = onto;
      std::vector<double> w(at(m));
      for (int i = 0; i < m; ++i)
        w[at(i)] = beta * std::inner_product(v.begin(), v.end(), a.row(k + 1 + i) + k + 1, 0.0);
      const double half = beta / 2 * std::inner_product(v.begin(), v.end(), w.begin(), 0.0);
      for (int i = 0; i < m; ++i) w[at(i)] -= half * v[at(i)];
      for (int i = 0; i < m; ++i) {
        double* row = a.row(k + 1 + i) + k + 1;
        const double vi = v[at(i)], wi = w[at(i)];
        for (int j = 0; j < m; ++j) row[j] -= vi * w[at(j)] + wi * v[at(j)];
      }
    }
  }
  for (int i = 0; i < n; ++i) diagonal[at(i)] = a(i, i);
  if (n > 1) beside[at(n - 2)] = a(n - 2, n - 1);
}

// Implicit QL: d becomes the eigenvalues.
void ql(std::vector<double>& d, std::vector<double>& e) {
  const int n = static_cast<int>(d.size());
  e.push_back(0);
  for (int l = 0; l < n; ++l) {
    for (int round = 0;; ++round) {
      int m = l;
      while (m + 1 < n && std::abs(e[at(m)]) > std::numeric_limits<double>::epsilon() *
                                                   (std::abs(d[at(m)]) + std::abs(d[at(m + 1)])))
        ++m;
      if (m == l) break;
      check(round < 60, "eigenvalues: QL did not converge for a ", n, " x ", n,
            " matrix; are all entries finite?");
      double g = (d[at(l + 1)] - d[at(l)]) / (2 * e[at(l)]), r = std::hypot(g, 1);
      g = d[at(m)] - d[at(l)] + e[at(l)] / (g + std::copysign(r, g));
      double s = 1, c = 1, p = 0;
      int i = m - 1;
      for (; i >= l; --i) {
        const double f = s * e[at(i)], b = c * e[at(i)];
        e[at(i + 1)] = r = std::hypot(f, g);
        // split: begin again with the smaller piece
        if (r == 0) {
          d[at(i + 1)] -= p;
          e[at(m)] = 0;
          break;
        }
        s = f / r, c = g / r;
        g = d[at(i + 1)] - p;
        r = (d[at(i)] - g) * s + 2 * c * b;
        p = s * r;
        d[at(i + 1)] = g + p;
        g = c * r - b;
      }
      if (r == 0 && i >= l) continue;
      d[at(l)] -= p;
      e[at(l)] = g;
      e[at(m)] = 0;
    }
  }
}

}  // namespace

Square multiply(const Square& a, const Square& b) {
  Square out(a.n);
  for (int i = 0; i < a.n; ++i)
    for (int k = 0; k < a.n; ++k) {
      const double factor = a(i, k);
      if (factor == 0) continue;
      const double* from = b.row(k);
      double* to = out.row(i);
      for (int j = 0; j < a.n; ++j) to[j] += factor * from[j];
    }
  return out;
}

std::vector<double> symmetric_eigenvalues(Square a) {
  const int n = a.n;
  if (n == 0) return {};
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < i; ++j) a(i, j) = a(j, i) = (a(i, j) + a(j, i)) / 2;
  std::vector<double> diagonal(at(n)), beside(at(n - 1));
  tridiagonalise(a, diagonal, beside);
  ql(diagonal, beside);
  std::ranges::sort(diagonal);
  return diagonal;
}

LinearSystem::LinearSystem(Square a) : lu_(std::move(a)), order_(at(lu_.n)) {
  const int n = lu_.n;
  std::iota(order_.begin(), order_.end(), 0);
  for (int k = 0; k < n; ++k) {
    int pivot = k;
    for (int i = k + 1; i < n; ++i)
      if (std::abs(lu_(i, k)) > std::abs(lu_(pivot, k))) pivot = i;
    check(lu_(pivot, k) != 0, "linear system: the ", n, " x ", n, " matrix is singular");
    if (pivot != k)
      std::swap_ranges(lu_.row(k), lu_.row(k) + n, lu_.row(pivot)),
          std::swap(order_[at(k)], order_[at(pivot)]);
    const double* above = lu_.row(k);
    for (int i = k + 1; i < n; ++i) {
      double* row = lu_.row(i);
      if (row[k] == 0) continue;
      const double factor = row[k] /= above[k];
      for (int j = k + 1; j < n; ++j) row[j] -= factor * above[j];
    }
  }
}

std::vector<double> LinearSystem::solve(const std::vector<double>& b) const {
  const int n = lu_.n;
  std::vector<double> x(at(n));
  for (int i = 0; i < n; ++i)
    x[at(i)] =
        b[at(order_[at(i)])] - std::inner_product(lu_.row(i), lu_.row(i) + i, x.begin(), 0.0);
  for (int i = n - 1; i >= 0; --i)
    x[at(i)] = (x[at(i)] -
                std::inner_product(lu_.row(i) + i + 1, lu_.row(i) + n, x.begin() + i + 1, 0.0)) /
               lu_(i, i);
  return x;
}

}  // namespace gossamer::dist
