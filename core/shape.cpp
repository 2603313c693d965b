// Shape, DType, Device: construction with checks, text.
#include "gossamer/core/shape.h"

#include <ostream>

#include "gossamer/core/device.h"
#include "gossamer/core/error.h"

namespace gossamer {

Shape Shape::of(const i64* extents, int rank) {
  check<ShapeError>(rank >= 0 && rank <= max_rank, "shape: rank ", rank, " is not in 0 … ",
                    max_rank);
  Shape s;
  s.rank_ = rank;
  for (int d = 0; d < rank; ++d) {
    check<ShapeError>(extents[d] >= -1, "shape: extent ", extents[d], " of dimension ", d,
                      " is negative");
    s.extents_[static_cast<std::size_t>(d)] = extents[d];
  }
  return s;
}

Shape::Shape(std::initializer_list<i64> extents) {
  *this = of(extents.begin(), static_cast<int>(extents.size()));
}

i64 Shape::numel() const {
  i64 n = 1;
  for (const i64 extent : *this) {
    check<ShapeError>(extent >= 0, "shape ", *this,
                      " has an open extent; only reshape fills it in");
    check<ShapeError>(!__builtin_mul_overflow(n, extent, &n), "shape ", *this,
                      " has more elements than can be counted");
  }
  return n;
}

std::string Shape::str() const {
  std::string text = "[";
  for (int d = 0; d < rank_; ++d) text += (d ? ", " : "") + std::to_string((*this)[d]);
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.str(); }

std::size_t size_of(DType type) {
  switch (type) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
      return 1;
    case DType::i64:
      return 8;
  }
  return 0;
}

const char* name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::u8:
      return "u8";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
  }
  return "?";
}

bool is_floating(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16;
}
std::ostream& operator<<(std::ostream& out, DType type) { return out << name_of(type); }

std::ostream& operator<<(std::ostream& out, Device device) {
  return device.is_cpu() ? out << "cpu" : out << "cuda:" << device.index;
}

}  // namespace gossamer
