// Matrix products by cuBLASLt, with bias and activation in the epilogue. No vendor type appears
// here.
#pragma once

#include <memory>
#include <string>

#include "gossamer/core/ops.h"

namespace gossamer::cublas {

// What follows a product c: it is added to what c held, or c = activation(c + bias).
struct Epilogue {
  bool add = false;
  Tensor bias = {};                          // [n] of c's type, or undefined: no activation either
  Activation activation = Activation::none;  // or gelu_tanh
  Tensor z = {};  // its argument goes there, like c with rows of 16 bytes; or undefined
};

class Gemm {
 public:
  explicit Gemm(Device);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;
  // c = op(a) op(b), then the epilogue, on the current stream. a [m, k] or [k, m] if ta; b [k, n]
  // or [n, k] if tb; c [m, n], f32 or the type of a. a and b f32, bf16 or f16. Sums in f32; f32
  // products keep their digits unless tf32. Thread-safe. DeviceError names the shapes.
  void run(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, const Epilogue&,
           bool tf32);
  // The same, but false, and nothing done, if cuBLASLt has no kernel for it.
  bool try_run(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, const Epilogue&,
               bool tf32);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string library_version();  // "13.1.0", or "not found: …"

}  // namespace gossamer::cublas
