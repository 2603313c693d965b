// What launches of the fused passes share: into how many blocks a pass is cut, alignment, and
// memory for partial sums.
#pragma once

#include <initializer_list>

#include "gossamer/core/ops/eight.h"
#include "gossamer/core/ops/grid.h"
#include "gossamer/core/tensor.h"

namespace gossamer::kernels {

// Blocks of a pass. Sums: few, because each block leaves 2 C numbers to add; the number depends on
// the shape only, so that a result does not depend on the GPU. 384 is one wave where three blocks
// fit on each of 132 multiprocessors (H100, H200), as they do for every kernel of sums in bf16
// (tests/core/cuda/resources_test.cpp). With 256 threads and four loads of 16 bytes each under way
// they keep 6.3 MB in flight; an H200 needs about 3.5 MB (4.3 TB/s times 0.8 us), a B200 6.4 MB. It
// is one wave on L40S, B200 and RTX 5090, too. More blocks for them would give other bits there,
// and would gain little. Elementwise passes: about four waves of 132 x 4 blocks, so that the last
// one is short.
inline constexpr i64 kBlocksOfSums = 384, kBlocksOfPasses = 2048;
inline constexpr std::uint8_t kNoTap = 255;  // taken, where the ReLU made the maximum zero

// Whether rows of C elements can be read in vectors of eight: all start on 16 bytes. Null pointers
// count as aligned.
inline bool fits_vectors(i64 cols, std::initializer_list<const Tensor*> tensors) {
  bool fits = cols % 8 == 0;
  for (const Tensor* t : tensors) fits = fits && (!t || !t->defined() || aligned16(t->data()));
  return fits;
}

// f.template operator()<T, whole>() for the type of x, and whether rows of C channels can be read
// as vectors in all tensors.
template <class F>
void with_vectors(const char* op, const Tensor& x, i64 cols,
                  std::initializer_list<const Tensor*> tensors, F&& f) {
  const bool whole = fits_vectors(cols, tensors);
  with_floating(x.dtype(), op, [&]<class T>() {
    if (whole)
      f.template operator()<T, true>();
    else
      f.template operator()<T, false>();
  });
}

// Kernels of pooling count pixels in 32 bits, before and after it.
inline void check_pixels(const char* op, const Tensor& x, const Tensor& y) {
  for (const Tensor* t : {&x, &y})
    check<ShapeError>(t->numel() / t->shape(-1) < (i64{1} << 32), op, ": ", t->shape(),
                      " has 2^32 pixels or more; use a smaller batch");
}

class Scratch {  // floats for a moment, in the order of the stream
 public:
  Scratch(i64 floats, Device device)
      : block_(allocate(sizeof(float) * static_cast<std::size_t>(floats), device)) {}
  float* data() const { return static_cast<float*>(block_->data); }

 private:
  std::shared_ptr<Block> block_;
};

}  // namespace gossamer::kernels
