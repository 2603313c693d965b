// Shared by op_fused_*.cpp: checks of shapes and alignment, memory for partial sums, and how many
// blocks a pass is cut into.
#pragma once

#include <initializer_list>

#include "gossamer/core/fused.h"
#include "gossamer/core/ops/eight.h"

namespace gossamer::fused {

// Blocks of a pass. Sums: few, because each block leaves 2 C numbers to add; the number depends on
// the shape only, so that a result does not depend on the GPU. 384 is one wave where three blocks
// fit on each of 132 multiprocessors (H100, H200), as they do for every kernel of sums in bf16
// (tests/core/cuda/resources_test.cpp). With 256 threads and four loads of 16 bytes each under way
// they keep 6.3 MB in flight; an H200 needs about 3.5 MB (4.3 TB/s times 0.8 us). Elementwise
// passes: about four waves of 132 x 4 blocks, so that the last one is short.
inline constexpr i64 kBlocksOfSums = 384, kBlocksOfPasses = 2048;

struct Matrix {
  i64 rows, cols;
};
inline Matrix matrix_of(const char* op, const Tensor& x) {
  check<ShapeError>(x.defined() && x.rank() >= 2 && x.numel() > 0, op, ": input is ",
                    x.defined() ? x.shape().str() : "undefined",
                    "; wanted [..., C] with at least two dimensions, not empty");
  return {x.numel() / x.shape(-1), x.shape(-1)};
}
inline void check_like(const char* op, const char* what, const Tensor& t, const Tensor& x) {
  check<ShapeError>(
      t.defined() && t.shape() == x.shape() && t.dtype() == x.dtype(), op, ": ", what, " is ",
      t.defined() ? std::string(name_of(t.dtype())) + " " + t.shape().str() : "undefined",
      "; wanted ", x.dtype(), " ", x.shape());
  check<DeviceError>(t.device() == x.device(), op, ": ", what, " is on ", t.device(), ", input on ",
                     x.device());
}
// Each f32 [C] for input [..., C].
inline void check_vectors(const char* op, const Tensor& x,
                          std::initializer_list<const Tensor*> vectors) {
  for (const Tensor* t : vectors) {
    check<ShapeError>(
        t->defined() && t->dtype() == DType::f32 && t->shape() == Shape{x.shape(-1)}, op,
        ": a vector is ",
        t->defined() ? std::string(name_of(t->dtype())) + " " + t->shape().str() : "undefined",
        "; input ", x.shape(), " wants f32 [", x.shape(-1), "]");
    check<DeviceError>(t->device() == x.device(), op, ": a vector is on ", t->device(),
                       ", input on ", x.device());
  }
}
inline void check_type(const char* op, const char* what, const Tensor& t, const Shape& shape,
                       DType type, Device device) {
  check<ShapeError>(
      t.defined() && t.shape() == shape && t.dtype() == type, op, ": ", what, " is ",
      t.defined() ? std::string(name_of(t.dtype())) + " " + t.shape().str() : "undefined",
      "; wanted ", type, " ", shape);
  check<DeviceError>(t.device() == device, op, ": ", what, " is on ", t.device(), ", wanted on ",
                     device);
}

// Whether rows of C elements can be read in vectors of eight: all start on 16 bytes. Null pointers
// count as aligned.
inline bool fits_vectors(i64 cols, std::initializer_list<const Tensor*> tensors) {
  bool fits = cols % 8 == 0;
  for (const Tensor* t : tensors) fits = fits && (!t || !t->defined() || aligned16(t->data()));
  return fits;
}

class Scratch {  // floats for a moment, in the order of the stream
 public:
  Scratch(i64 floats, Device device)
      : block_(allocate(sizeof(float) * static_cast<std::size_t>(floats), device)) {}
  float* data() const { return static_cast<float*>(block_->data); }

 private:
  std::shared_ptr<Block> block_;
};

}  // namespace gossamer::fused
