// Matrix products by cuBLASLt, with bias and activation in the epilogue. No vendor type appears
// here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/ops.h"

namespace gossamer::cublas {

// What follows a product c: it is added to what c held, or c = activation(c + bias).
struct Epilogue {
  bool add = false;
  Tensor bias = {};                          // [n] of c's type, or undefined: no activation either
  Activation activation = Activation::none;  // or gelu_tanh
  Tensor z = {};  // its argument goes there, like c with rows of 16 bytes; or undefined
};

struct GemmOptions {
  // Measure eight proposals of cuBLASLt when a shape is first met, and keep the fastest that is
  // right; false: its first. Bits may then differ from start to start, unless the file says which.
  bool measure = false;
  std::string plan_file;  // where choices are kept between runs; "": nowhere
};

class Gemm {
 public:
  explicit Gemm(Device, const GemmOptions& = {});
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;
  // c = op(a) op(b), then the epilogue, on the current stream. a [m, k] or [k, m] if ta; b [k, n]
  // or [n, k] if tb; c [m, n], f32 or the type of a. a and b f32, bf16 or f16. Sums in f32; f32
  // products keep their digits unless tf32. Thread-safe. DeviceError names the shapes.
  void run(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, const Epilogue&,
           bool tf32);
  // A shape that is met for the first time is measured, which waits for the device; never while a
  // graph is captured: then the first proposal is taken, and a later call measures.
  // The same, but false, and nothing done, if cuBLASLt has no kernel for it.
  bool try_run(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, const Epilogue&,
               bool tf32);

  // What was chosen so far: the product, "heuristic", "measured" or "file", microseconds of it and
  // of cuBLASLt's first guess (0: not measured), how many proposals there were, and how many faster
  // ones were wrong.
  struct Choice {
    std::string product, from;
    double microseconds = 0, first_guess = 0;
    int proposals = 0, rejected = 0;
  };
  std::vector<Choice> choices() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string library_version();  // "13.1.0", or "not found: …"

}  // namespace gossamer::cublas
