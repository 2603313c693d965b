// What all backends of the CPU have in common: pooling and averages as loops over rows of channels,
// and batch norms with a second branch or pooling, composed of passes over one tensor.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer {

class CpuBackend : public Backend {
 public:
  // In cpu_backend.cpp. The mask is what batch_norm returned; after pooling, the tap of each
  // maximum, or kNoTap where the ReLU gave zero.
  void norm_statistics(Norm&, float eps, const NormRunning&) final;
  Tensor norm_apply(const Norm&, const NormTail&, bool backward, Tensor& y) final;
  void norm_back(const Norm&, const NormTail&, const Tensor& mask, const Tensor& dy,
                 const NormGrads&, const NormGrads* second, Tensor* d_add) final;
  // In pool.cpp.
  void max_pool(const PoolGeometry&, const Tensor& x, Tensor& y, const Tensor& taken) final;
  void max_pool_back(const PoolGeometry&, const Tensor& dy, const Tensor& taken, Tensor& dx) final;
  void avg_pool(const PoolGeometry&, const Tensor& x, Tensor& y) final;
  void avg_pool_back(const PoolGeometry&, const Tensor& dy, Tensor& dx) final;
  void global_average(const Tensor& x, Tensor& y) final;
  void global_average_back(const Tensor& dy, Tensor& dx) final;

 protected:
  // mean and inv_std of x, as norm_statistics says.
  virtual void batch_statistics(Norm&, float eps) = 0;
  // y = relu?(norm(x) (+ add | + norm(second))); returns what batch_norm_back must know of the
  // ReLU: y, or nothing.
  virtual Tensor batch_norm(const Norm&, const Tensor* add, const Norm* second, bool relu,
                            Tensor& y) = 0;
  // norm_back of that; mask: what batch_norm has returned
  virtual void batch_norm_back(const Norm&, bool relu, const Tensor& mask, const Tensor& dy,
                               const NormGrads&, Tensor* d_add) = 0;
};

}  // namespace gossamer
