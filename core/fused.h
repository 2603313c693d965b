// The passes a GPU makes over its memory in a training step, each reading and writing everything
// once: batch norm with what surrounds it, the stem, loss and counters, pictures. Outside the tape.
// They run on the current stream and never wait. On a CPU the same code loops over the same blocks
// and threads: exact, slow, for tests. Formulas: core/ops/*_kernels.h. The optimizer's pass is in
// update.h.
#pragma once

#include <array>
#include <span>

#include "gossamer/core/tensor.h"

namespace gossamer {
struct PoolGeometry;  // backend.h
}

namespace gossamer::fused {

// Where a pass begins. One that begins where the one before ended finds that part of the tensor in
// the cache.
enum class Sweep { up, down };
inline Sweep opposite(Sweep s) { return s == Sweep::up ? Sweep::down : Sweep::up; }

// --- batch norm (op_fused_norm.cpp, op_fused_norm_back.cpp). x, y and their gradients [..., C],
// f32, bf16 or f16; everything per channel f32 [C].
struct NormFactors {
  Tensor mean, inv_std;  // of the batch
  Tensor scale, shift;   // normalised x = x scale + shift
  static NormFactors empty(i64 channels, Device);
};
struct NormRunning {
  Tensor mean, var;  // either may be undefined: not kept
  float momentum = 0.1f;
};
// Statistics of x over its rows (two passes: sums, factors). eps is added to the biased variance.
void norm_statistics(const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps,
                     const NormRunning&, NormFactors& out, Sweep = Sweep::down);
// scale and shift from factors.mean and factors.inv_std.
void norm_factors(const Tensor& gamma, const Tensor& beta, NormFactors& factors);

// y = relu?(x scale + shift + what is joined). At most one of add and second.
struct NormJoin {
  const Tensor* add = nullptr;     // a tensor like x
  const Tensor* second = nullptr;  // one that is normalised on the way, by:
  const NormFactors* second_factors = nullptr;
  bool relu = false;
  Tensor* mask = nullptr;  // u8, norm_mask_bytes(y) bytes: one bit an element, y > 0
};
i64 norm_mask_bytes(const Tensor& y);  // rows * ceil(C/8)
void norm_apply(const Tensor& x, const NormFactors&, const NormJoin&, Tensor& y, Sweep = Sweep::up);

// The gradient a batch norm gets, and which of its elements the ReLU lets through.
struct NormGradient {
  enum class From { dense, pooled, spread } from = From::dense;
  // dense: like x.  pooled: that of stem_pool's y.  spread: [N, C], that of a global average
  Tensor dy{};
  Tensor taken{};  // pooled: as stem_pool wrote it; contains the ReLU's mask
  // factors: where x scale + shift > 0 (nothing was joined)
  enum class Relu { none, factors, bits, output } relu = Relu::none;
  Tensor mask{};  // bits: as norm_apply wrote it.  output: y
};
struct NormBack {  // one normalised input
  const Tensor& x;
  const NormFactors& factors;
  const Tensor& gamma;
  Tensor &dx, &d_gamma, &d_beta;  // dx may be dy's memory when dense
};
// dx = scale (g - mean(g) - xhat mean(g xhat)), d_gamma = sum g xhat, d_beta = sum g, with g = dy
// where the ReLU was open. second: the other branch of a projection block, reduced and written in
// the same passes (dense, bits). d_add: g, for the shortcut; may be dy's memory if dx is not. The
// sums go through memory as `sweep` says, the other pass the opposite way.
void norm_back(const NormGradient&, const NormBack&, const NormBack* second = nullptr,
               Tensor* d_add = nullptr, Sweep = Sweep::down);

// --- stem (op_fused_stem.cpp)
// 3 x 3 max pooling with stride 2, padding 1 of relu(x scale + shift). x [N, H, W, C]; y [N,
// (H-1)/2+1, (W-1)/2+1, C]; taken u8 like y.
void stem_pool(const Tensor& x, const NormFactors&, Tensor& y, Tensor& taken);
// A 7 x 7 convolution with stride 2, padding 3 on 3 channels is a 4 x 4 one with stride 1 on 2 x 2
// pixels put side by side as channels, padded by 2 before and 1 behind: y[p] looks at pixels 2p - 3
// … 2p + 3, which lie in pairs p - 2 … p + 1.
inline constexpr i64 kStemChannels = 16;  // (2 dy + dx) 3 + c, then four zeros
// [N, H, W, 3] (H, W even) -> [N, H/2, W/2, 16]; one type
void stem_input(const Tensor& images, Tensor& pairs);
// [K, 7, 7, 3] f32 or the type of pairs -> [K, 4, 4, 16], a floating type
void stem_weight(const Tensor& w, Tensor& pairs);
// [K, 4, 4, 16], a floating type -> [K, 7, 7, 3] f32
void stem_weight_grad(const Tensor& d_pairs, Tensor& dw);

// --- pictures (op_fused_input.cpp)
// One picture of a batch: where its bytes are and what becomes of it. A box of width x height
// pixels is resized to to_width x to_height with Pillow's antialiased triangle filter (taps end at
// the box); the output is a window of that, from (x, y) on, mirrored if flip.
struct Picture {
  // of the box's first pixel in the batch's bytes; only pixels that are used need be there
  std::int64_t offset = 0;
  std::int32_t pitch = 0;  // bytes from row to row
  std::int32_t width = 0, height = 0, to_width = 0, to_height = 0, x = 0, y = 0;
  std::int32_t flip = 0;
};
// Before a batch goes to the device, where nobody can look: ShapeError names the picture whose
// window or bytes do not exist.
void check_pictures(std::span<const Picture>, i64 bytes, int height, int width);
// bytes u8 RGB, pictures u8 [N sizeof(Picture)]: -> out [N, H, W, 3] or in pairs [N, H/2, W/2, 16]
// (stem_input's layout), of a floating type: (value/255 - mean)/std. Intermediate values are f32:
// within 1/255 of resize() in data/codec/image.h, which rounds to bytes twice.
void input_pass(const Tensor& bytes, const Tensor& pictures, const std::array<float, 3>& mean,
                const std::array<float, 3>& std, Tensor& out);

// --- pooling (op_fused_pool.cpp): what max_pool2d and avg_pool2d do on a GPU. taken u8 like y, the
// tap of the maximum; undefined: not kept.
void max_pool(const PoolGeometry&, const Tensor& x, Tensor& y, const Tensor& taken);
void max_pool_back(const PoolGeometry&, const Tensor& dy, const Tensor& taken, Tensor& dx);
void avg_pool(const PoolGeometry&, const Tensor& x, Tensor& y);
void avg_pool_back(const PoolGeometry&, const Tensor& dy, Tensor& dx);

// --- head (op_fused_head.cpp)
void global_average(const Tensor& x, Tensor& y);         // [N, H, W, C] -> [N, C]
void global_average_back(const Tensor& dy, Tensor& dx);  // [N, C] -> [N, H, W, C]
// Sums over all rows since they were cleared: what a run wants to know of its steps, kept on the
// device and read now and then.
struct Counters {
  double loss = 0, top1 = 0, top5 = 0, rows = 0;
};
// u8 [sizeof(Counters)], zero
Tensor new_counters(Device);
Counters read_counters(const Tensor&);  // waits for the device
// Softmax cross-entropy with label smoothing a (formula: cross_entropy in ops.h). logits [N, K],
// labels i32 [N]; losses f32 [N]; dz [N, K] f32 or the logits' type: (p - q) grad_scale, undefined:
// not wanted; counters are added to, undefined: none. A label outside [0, K) makes its row's loss
// and gradient NaN. Ties and NaN count against top1 and top5.
void softmax_loss(const Tensor& logits, const Tensor& labels, float label_smoothing,
                  float grad_scale, Tensor& losses, Tensor& dz, Tensor& counters);

}  // namespace gossamer::fused
