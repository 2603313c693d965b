// The few calls for which a vendor's library is faster than plain loops. Everything else is one
// formula in op_*.cpp. Backends: "reference" (plain loops, the oracle of the tests), "onednn"
// (CPU), "cuda" (cuBLASLt, cuDNN), and "passes": a CPU that takes the way of a GPU through every
// op, block by block (for tests).
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer {

// x [n, h, w, c], w [k, r, s, c/groups], y [n, ho, wo, k]. padding: before the first row and
// column; behind there is what the last output needs.
struct ConvGeometry {
  i64 n, h, w, c, k, r, s, ho, wo;
  int stride, padding, dilation, groups;
  bool operator==(const ConvGeometry&) const = default;
};

// x [n, h, w, c], y [n, ho, wo, c].
struct PoolGeometry {
  i64 n, h, w, c, ho, wo;
  int kernel, stride, padding;
  bool operator==(const PoolGeometry&) const = default;
};

// Types: x, y, w, dy, dx share one type (f32, bf16 or f16); dw, scale, shift, mean and the like are
// f32. Sums are in f32.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  // c = alpha op(a) op(b) + beta c.  a [m, k] or [k, m] if ta; b [k, n] or [n, k] if tb; c [m, n],
  // f32 or the type of a.
  virtual void gemm(bool ta, bool tb, float alpha, const Tensor& a, const Tensor& b, float beta,
                    Tensor& c) = 0;
  // y = x w' + bias: x [n, k], w [d, k], bias [d] f32 or their type, y [n, d] of theirs. The sum is
  // rounded once, bias included. gemm and a pass, unless a vendor has both in one
  virtual void linear(const Tensor& x, const Tensor& w, const Tensor& bias, Tensor& y);
  virtual void conv(const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y) = 0;
  virtual void conv_dx(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx) = 0;
  virtual void conv_dw(const ConvGeometry&, const Tensor& x, const Tensor& dy, Tensor& dw) = 0;
  // dx += what conv_dx computes, in place; false: not done, this backend cannot.
  virtual bool conv_dx_add(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx);

  // Batch norm of a CPU; where by_passes() these fail, since there it is made of the passes of
  // fused.h. Over all but the last dimension; x, add, y [rows, c]. Train: batch mean and biased
  // variance are computed,
  //   y = relu?(scale (x - mean) inv_std + shift + add?);   mean, inv_std f32 [c] are outputs
  //   (inv_std = 1/sqrt(var + eps)).
  virtual void batch_norm_train(const Tensor& x, const Tensor* add, const Tensor& scale,
                                const Tensor& shift, float eps, bool relu, Tensor& y, Tensor& mean,
                                Tensor& inv_std);
  // Same formula with given statistics (mean and inv_std are inputs).
  virtual void batch_norm_apply(const Tensor& x, const Tensor* add, const Tensor& scale,
                                const Tensor& shift, bool relu, const Tensor& mean,
                                const Tensor& inv_std, Tensor& y);
  // g = dy where y > 0 (relu) else dy;  d_shift = sum g;  d_scale = sum g xhat;
  //   dx = scale inv_std (g - d_shift/rows - xhat d_scale/rows);  d_add = g if wanted (nullptr:
  //   not). y is needed with relu only.
  virtual void batch_norm_back(const Tensor& dy, const Tensor& x, const Tensor* y,
                               const Tensor& scale, const Tensor& mean, const Tensor& inv_std,
                               bool relu, Tensor& dx, Tensor& d_scale, Tensor& d_shift,
                               Tensor* d_add);
};

// the one in use; CPU: "onednn" unless set otherwise; a GPU: "cuda" (backend_cuda.h)
Backend& backend(Device);
// whether ops there are made of the passes of fused.h: on GPUs, and under "passes"
bool by_passes(Device);
// of the CPU; DeviceError lists what this build has
Backend& backend(const std::string& name);
void use_cpu_backend(const std::string& name);  // for the whole process
std::vector<std::string> backend_names();       // of the CPU

}  // namespace gossamer
