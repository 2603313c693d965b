// Eigenvalues of symmetric matrices and linear systems. Inner loops run along rows, so that they vectorise.
#include "gossamer/dist/linear_algebra.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Q^T a Q becomes tridiagonal: `diagonal` and `beside` (beside[i] joins i and i+1). Returns Q^T if `vectors`.
Square tridiagonalise(Square& a, std::vector<double>& diagonal, std::vector<double>& beside, bool vectors) {
  const int n = a.n;
  std::vector<std::pair<double, std::vector<double>>> mirrors;       // (beta, v): I - beta v v^T, v begins at row k+1
  for (int k = 0; k + 2 < n; ++k) {
    const int m = n - k - 1;
    std::vector<double> v(a.row(k) + k + 1, a.row(k) + n);
    const double length = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
    double beta = 0;
    beside[at(k)] = v[0];
    if (length > 0) {
      const double onto = v[0] > 0 ? -length : length;
      beta = 1 / (onto * (onto - v[0]));
      v[0] -= onto;
      beside[at(k)] = onto;
      std::vector<double> w(at(m));
      for (int i = 0; i < m; ++i) w[at(i)] = beta * std::inner_product(v.begin(), v.end(), a.row(k + 1 + i) + k + 1, 0.0);
      const double half = beta / 2 * std::inner_product(v.begin(), v.end(), w.begin(), 0.0);
      for (int i = 0; i < m; ++i) w[at(i)] -= half * v[at(i)];
      for (int i = 0; i < m; ++i) {
        double* row = a.row(k + 1 + i) + k + 1;
        const double vi = v[at(i)], wi = w[at(i)];
        for (int j = 0; j < m; ++j) row[j] -= vi * w[at(j)] + wi * v[at(j)];
      }
    }
    if (vectors) mirrors.emplace_back(beta, std::move(v));
  }
  for (int i = 0; i < n; ++i) diagonal[at(i)] = a(i, i);
  if (n > 1) beside[at(n - 2)] = a(n - 2, n - 1);
  if (!vectors) return Square(0);

  Square q(n);
  for (int i = 0; i < n; ++i) q(i, i) = 1;
  for (int k = n - 3; k >= 0; --k) {                       // q <- (I - beta v v^T) q; only rows and columns after k are touched
    const auto& [beta, v] = mirrors[at(k)];
    const int m = n - k - 1;
    std::vector<double> sum(at(m));
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < m; ++j) sum[at(j)] += v[at(i)] * q.row(k + 1 + i)[k + 1 + j];
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < m; ++j) q.row(k + 1 + i)[k + 1 + j] -= beta * v[at(i)] * sum[at(j)];
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < i; ++j) std::swap(q(i, j), q(j, i));
  return q;
}

// Implicit QL: d becomes the eigenvalues; rows of z follow the rotations (none if z is empty).
void ql(std::vector<double>& d, std::vector<double>& e, Square& z) {
  const int n = static_cast<int>(d.size());
  e.push_back(0);
  for (int l = 0; l < n; ++l) {
    for (int round = 0;; ++round) {
      int m = l;
      while (m + 1 < n && std::abs(e[at(m)]) > std::numeric_limits<double>::epsilon() * (std::abs(d[at(m)]) + std::abs(d[at(m + 1)]))) ++m;
      if (m == l) break;
      check(round < 60, "eigenvalues: QL did not converge for a ", n, " x ", n, " matrix; are all entries finite?");
      double g = (d[at(l + 1)] - d[at(l)]) / (2 * e[at(l)]), r = std::hypot(g, 1);
      g = d[at(m)] - d[at(l)] + e[at(l)] / (g + std::copysign(r, g));
      double s = 1, c = 1, p = 0;
      int i = m - 1;
      for (; i >= l; --i) {
        const double f = s * e[at(i)], b = c * e[at(i)];
        e[at(i + 1)] = r = std::hypot(f, g);
        if (r == 0) {                                      // split: begin again with the smaller piece
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
        if (z.n > 0) {
          double *low = z.row(i), *high = z.row(i + 1);
          for (int k = 0; k < n; ++k) {
            const double h = high[k];
            high[k] = s * low[k] + c * h;
            low[k] = c * low[k] - s * h;
          }
        }
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

SymmetricEigen symmetric_eigen(Square a, bool vectors) {
  const int n = a.n;
  if (n == 0) return {{}, Square(0)};
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < i; ++j) a(i, j) = a(j, i) = (a(i, j) + a(j, i)) / 2;
  std::vector<double> diagonal(at(n)), beside(at(n - 1));
  Square rows = tridiagonalise(a, diagonal, beside, vectors);
  ql(diagonal, beside, rows);
  std::vector<int> order(at(n));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int k) { return diagonal[at(k)]; });
  SymmetricEigen out{std::vector<double>(at(n)), Square(rows.n)};
  for (int k = 0; k < n; ++k) {
    out.values[at(k)] = diagonal[at(order[at(k)])];
    if (vectors) std::copy_n(rows.row(order[at(k)]), n, out.vectors.row(k));
  }
  return out;
}

LinearSystem::LinearSystem(Square a) : lu_(std::move(a)), order_(at(lu_.n)) {
  const int n = lu_.n;
  std::iota(order_.begin(), order_.end(), 0);
  for (int k = 0; k < n; ++k) {
    int pivot = k;
    for (int i = k + 1; i < n; ++i)
      if (std::abs(lu_(i, k)) > std::abs(lu_(pivot, k))) pivot = i;
    check(lu_(pivot, k) != 0, "linear system: the ", n, " x ", n, " matrix is singular");
    if (pivot != k) std::swap_ranges(lu_.row(k), lu_.row(k) + n, lu_.row(pivot)), std::swap(order_[at(k)], order_[at(pivot)]);
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
  for (int i = 0; i < n; ++i) x[at(i)] = b[at(order_[at(i)])] - std::inner_product(lu_.row(i), lu_.row(i) + i, x.begin(), 0.0);
  for (int i = n - 1; i >= 0; --i) x[at(i)] = (x[at(i)] - std::inner_product(lu_.row(i) + i + 1, lu_.row(i) + n, x.begin() + i + 1, 0.0)) / lu_(i, i);
  return x;
}

}  // namespace gossamer::dist
