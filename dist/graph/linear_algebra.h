// Dense linear algebra in double for spectra of graphs: eigenvalues of symmetric matrices, and
// linear systems. Sizes up to about a thousand.
// Threads: any for functions and for a LinearSystem; one at a time changes a Square.
#pragma once

#include <vector>

namespace gossamer::dist {

// n x n, row-major.
struct Square {
  int n = 0;
  std::vector<double> values;
  explicit Square(int size = 0)
      : n(size), values(static_cast<std::size_t>(size) * static_cast<std::size_t>(size)) {}
  double* row(int i) {
    return values.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(n);
  }
  const double* row(int i) const {
    return values.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(n);
  }
  double& operator()(int i, int j) { return row(i)[j]; }
  double operator()(int i, int j) const { return row(i)[j]; }
};

Square multiply(const Square& a, const Square& b);

// Ascending. Householder tridiagonalisation and implicit QL (Golub and Van Loan, chapter 8), ~2 n^3
// operations. Only a's symmetric part counts. Throws Error if QL does not converge (not seen; a NaN
// in `a` would do it).
std::vector<double> symmetric_eigenvalues(Square a);

// LU with partial pivoting. Throws Error if the matrix is singular.
class LinearSystem {
 public:
  explicit LinearSystem(Square a);
  std::vector<double> solve(const std::vector<double>& b) const;

 private:
  Square lu_;
  std::vector<int> order_;  // row k of lu_ was row order_[k]
};

}  // namespace gossamer::dist
