// Shape: up to six extents, row-major, without heap memory.
// Threads: any.
#pragma once

#include <array>
#include <initializer_list>
#include <iosfwd>
#include <string>

#include "gossamer/core/dtype.h"

namespace gossamer {

class Shape {
 public:
  static constexpr int max_rank = 6;
  Shape() = default;  // rank 0: one element
  // ShapeError: an extent < -1 or more than six (-1: for reshape)
  Shape(std::initializer_list<i64> extents);
  static Shape of(const i64* extents, int rank);
  int rank() const { return rank_; }
  // dim -1: the last one, -2: the one before, …
  i64 operator[](int dim) const {
    return extents_[static_cast<std::size_t>(dim < 0 ? dim + rank_ : dim)];
  }
  // product of the extents; 1 for rank 0. ShapeError: an extent is -1, or the product overflows
  i64 numel() const;
  const i64* begin() const { return extents_.data(); }
  const i64* end() const { return extents_.data() + rank_; }
  bool operator==(const Shape&) const = default;
  std::string str() const;  // "[32, 3, 3, 16]"

 private:
  // unused extents stay 0, so == may compare all
  std::array<i64, max_rank> extents_{};
  int rank_ = 0;
};

std::ostream& operator<<(std::ostream&, const Shape&);

}  // namespace gossamer
