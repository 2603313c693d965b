// Matrix products of f32, bf16 and f16 on a CPU, computed in f32, with what follows them.
#pragma once

#include "gossamer/core/ops.h"

namespace gossamer::cpu {

// What follows the sums a b: c = activation(z), z = sums (+ c) (+ bias).
struct ProductTail {
  bool add = false;  // what c held is added; no activation
  Tensor bias = {};  // [n], f32 or the type of the product, or undefined
  Activation activation = Activation::none;
  Tensor z = {};  // like c; undefined: not wanted
};
// A matrix [n down across, row] of images [n, h, w, row]: its rows are every `stride`-th pixel, in
// both directions.
struct StridedRows {
  i64 h, w, stride;
  i64 down, across;  // rows of each image: down x across
  // the pixel that is a row
  i64 pixel(i64 row) const {
    return (row / (down * across) * h + row / across % down * stride) * w + row % across * stride;
  }
};

// a [m, k], or [k, m] if ta; b [k, n], or [n, k] if tb; c [m, n], f32 or their type. Every number
// of c is summed in order, so it does not depend on the number of threads.
// strided (null: none): a, or, if ta and in f32 alone, b, is given as images, of any shape, and its
// rows are those pixels.
void product(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, const ProductTail&,
             const StridedRows* strided = nullptr);

}  // namespace gossamer::cpu
