// What a GPU computes between its vendor's calls, as passes that read and write each number once:
// batch norm with what surrounds it, pooling, averages, the loss. A pass is a struct in kernels/
// that says what a thread of a block does; for_each_block (ops/grid.h) runs it, on a GPU as a
// launch and on a CPU as loops over the same blocks and threads. Nothing waits for the device.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer {

// The base of "cuda", which adds its vendor's calls, and of "cuda_emulated".
class FusedBackend : public Backend {
 public:
  // kernels/norm.cpp, kernels/norm_back.cpp. The mask: with add or second one bit an element, u8
  // [rows ceil(C/8)]; after pooling the taps, kNoTap where the ReLU gave zero; else none, since
  // a x + b > 0 is computed again.
  void norm_statistics(Norm&, float eps, const NormRunning&) final;
  Tensor norm_apply(const Norm&, const NormTail&, bool backward, Tensor& y) final;
  void norm_back(const Norm&, const NormTail&, const Tensor& mask, const Tensor& dy,
                 const NormGrads&, const NormGrads* second, Tensor* d_add) final;
  // kernels/pool.cpp
  void max_pool(const PoolGeometry&, const Tensor& x, Tensor& y, const Tensor& taken) final;
  void max_pool_back(const PoolGeometry&, const Tensor& dy, const Tensor& taken, Tensor& dx) final;
  void avg_pool(const PoolGeometry&, const Tensor& x, Tensor& y) final;
  void avg_pool_back(const PoolGeometry&, const Tensor& dy, Tensor& dx) final;
  void global_average(const Tensor& x, Tensor& y) final;
  void global_average_back(const Tensor& dy, Tensor& dx) final;
  // kernels/layer_norm.cpp
  void layer_norm(const RowNorm&, const Tensor* add, Tensor* sum, Tensor& y) final;
  void layer_norm_back(const RowNorm&, const Tensor& dy, bool accumulate, Tensor& dx,
                       const Tensor& d_scale, const Tensor& d_shift) final;
  // kernels/attention.cpp: heads of up to 256 numbers
  void attention(const Attention&, Tensor& y, const Tensor& log_sums) override;
  void attention_back(const Attention&, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                      const PackedRows& dq, const PackedRows& dk, const PackedRows& dv) override;
  // kernels/loss.cpp
  void softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows&, Tensor& losses,
                    const Tensor& dz) final;
  i64 most_logits() const final { return i64{1} << 31; }
  void softmax_norms(const Tensor& logits, const Tensor& labels, const LossRows&, Tensor& losses,
                     Tensor& norms) final;
  void softmax_back(Tensor& logits, const Tensor& labels, const LossRows&, const Tensor& norms,
                    const Tensor& g, const Tensor& share) final;
  // inference_conv.cpp
  std::unique_ptr<PackedConv> pack_conv(const Tensor& w) final;
  void conv_inference(const ConvGeometry&, const Tensor& x, PackedConv&, const ConvTail&,
                      Tensor& y) final;

 protected:
  // Whether this convolution is one of pairs of pixels (stem.h).
  virtual bool convolves_in_pairs(const ConvGeometry&, DType) const = 0;
  // y = relu?(conv(x, w) (+ add) + bias), rounded once, in one call. All are of one type; add is
  // like y, or undefined. Returns false, and does nothing, if this backend cannot.
  virtual bool conv_with_tail(const ConvGeometry&, const Tensor& x, const Tensor& w,
                              const Tensor& bias, const Tensor& add, bool relu, Tensor& y) = 0;
};

}  // namespace gossamer
