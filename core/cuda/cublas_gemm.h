// Matrix products by cuBLASLt, with a bias in the epilogue. No vendor type appears here.
#pragma once

#include <memory>
#include <string>

#include "gossamer/core/tensor.h"

namespace gossamer::cublas {

class Gemm {
 public:
  explicit Gemm(Device);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;
  // c = alpha op(a) op(b) + beta c (+ bias on every row), on the current stream. a [m, k] or [k, m]
  // if ta; b [k, n] or [n, k] if tb; c [m, n], f32 or the type of a; bias [n] of c's type, or null.
  // a and b f32, bf16 or f16. Sums in f32; f32 products keep their digits unless tf32. Thread-safe.
  // DeviceError names the shapes.
  void run(bool ta, bool tb, float alpha, const Tensor& a, const Tensor& b, float beta, Tensor& c,
           const Tensor* bias = nullptr, bool tf32 = false);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string library_version();  // "13.1.0", or "not found: …"

}  // namespace gossamer::cublas
