// The only seam between ops and devices: the calls that are computed differently on each device.
// Everything else is one formula in ops/op_*.cpp, for all devices. An op checks shapes, calls the
// backend of its tensors' device and records the gradient; a backend checks nothing again.
//   reference      plain loops, sums in double: the oracle of the tests
//   cpu            the CPU: own kernels, and oneDNN where it is faster, in builds that have it
//   cpu_own        the same without oneDNN: what `cpu` is in the other builds
//   cuda           a GPU: cuDNN, cuBLASLt, and passes that fuse what lies between their calls
//   cuda_emulated  the same passes over the same blocks and threads on a CPU, for tests
// Threads: any, as ops (ops.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer {

enum class Activation;  // ops.h

// x [n, h, w, c], w [k, r, s, c/groups], y [n, ho, wo, k]. padding: rows and columns of zeros
// before the first; after the last there are as many as the last output needs.
struct ConvGeometry {
  i64 n, h, w, c, k, r, s, ho, wo;
  int stride, padding, dilation, groups;
  bool operator==(const ConvGeometry&) const = default;
};

// What follows the sums of a convolution in inference: y = relu?(sums + bias[k] (+ y)).
struct ConvTail {
  Tensor bias;  // f32 [k]
  bool add = false, relu = false;
};
// The weights of such a convolution, and the packed forms that a backend has made of them.
class PackedConv {
 public:
  virtual ~PackedConv() = default;
  virtual Tensor weights() = 0;  // [k, r, s, c/groups], as they came
};

// x [n, h, w, c], y [n, ho, wo, c].
struct PoolGeometry {
  i64 n, h, w, c, ho, wo;
  int kernel, stride, padding;
  bool operator==(const PoolGeometry&) const = default;
};

// A batch norm (Ioffe and Szegedy 2015) over the rows of x [..., C]; all others are f32 [C].
struct Norm {
  Tensor x, scale, shift;
  Tensor mean, inv_std;  // the statistics in use; inv_std = 1/sqrt(variance + eps)
  Tensor a, b;           // a = scale inv_std, b = shift - mean a: the normalised x is a x + b
  bool given = false;    // the statistics are constants: no gradient flows through them
};
struct NormRunning {
  Tensor mean, var;  // either may be undefined: not kept
  float momentum = 0.1f;
};
// What one pass makes of a normalised x: y = pool?(relu?(a x + b (+ add | + second))), where a
// question mark means: if asked for.
struct NormTail {
  const Tensor* add = nullptr;   // like x; not read by norm_back
  const Norm* second = nullptr;  // another normalised tensor like x, with relu
  bool relu = false;
  bool pool = false;  // max pooling over 3 x 3 windows, stride 2, padding 1; with relu alone
};
struct NormGrads {
  Tensor dx, d_scale, d_shift;  // dx may be dy's memory unless pooled
};

// Which rows of a matrix are meant: of every `all` rows `count`, from `first` on.
struct RowsOfEach {
  i64 first = 0, count = 1, all = 1;
  GOSSAMER_HD i64 at(i64 row) const { return row / count * all + first + row % count; }
};
// A layer norm (Ba et al. 2016) of rows of x [..., C] (+ add): scale f32 [C], shift f32 [C] or
// undefined.
struct RowNorm {
  Tensor x, scale, shift;
  float eps;
  // f32 [rows]; layer_norm() writes them. mean undefined: it counts as zero (rms_norm in ops.h)
  Tensor mean, inv_std;
  RowsOfEach rows{};  // of x, y and their gradients; the others stay as they are
  i64 count() const { return x.numel() / x.shape(-1) / rows.all * rows.count; }
};

// Attention (core/ops.h) over B x H heads. Row t of head h of q lies at q.data + (b Tq + t) q.row +
// h D; those of k and v have Tk rows for each b, and head h reads h/(H/K).
struct PackedRows {
  Tensor t;
  i64 first, row;  // in elements: the first row of head 0, and from a row to the next
};
struct Attention {
  i64 batch, heads, kv_heads, queries, keys, size;  // B, H, K, Tq, Tk, D
  bool causal;
  i64 first;   // query i sees keys 0 … first + i if causal
  i64 window;  // and of these the last `window`; 0: all
  float dropout;
  std::uint64_t seed;
  Tensor stream;  // i64 [] on the device, for dropout
  PackedRows q, k, v;
  Tensor lengths;  // i32 [B]: keys that exist; undefined: all
  Tensor begins;   // i32 [B, Tq]: the first key that a query may see; undefined: 0

  i64 group() const { return heads / kv_heads; }  // heads of q that share those of k and v
};

// How the rows of a loss count.
struct LossRows {
  float label_smoothing = 0;
  bool ignores = false;  // rows with label `ignore`
  std::int32_t ignore = 0;
};

// Types: x, y, w and their gradients share one type (f32, bf16 or f16); dw and everything per
// channel is f32. Sums are in f32 or better. Results are overwritten unless it says otherwise.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;

  // c = op(a) op(b), or c += that if `add`.  a [m, k] or [k, m] if ta; b [k, n] or [n, k] if tb;
  // c [m, n], f32 or the type of a.
  virtual void gemm(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, bool add) = 0;
  // y = activation(z), z = x w' + bias, in one call: x [n, k], w [d, k], bias [d] f32 or their type
  // or undefined, y [n, d]; z like y, undefined: not wanted. Returns false, and does nothing, if
  // this backend cannot.
  virtual bool linear(const Tensor& x, const Tensor& w, const Tensor& bias, Activation, Tensor& y,
                      const Tensor& z);

  // The formulas are those of conv2d in ops.h.
  virtual void conv(const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y) = 0;
  virtual void conv_dx(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx) = 0;
  virtual void conv_dw(const ConvGeometry&, const Tensor& x, const Tensor& dy, Tensor& dw) = 0;
  // dx += what conv_dx computes, in place. Returns false, and does nothing, if it cannot.
  virtual bool conv_dx_add(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx);

  // conv and what follows it, for weights and a bias that do not change. What pack_conv returns
  // serves all calls, from several threads too. Where y is added, it may get other memory.
  virtual std::unique_ptr<PackedConv> pack_conv(const Tensor& w);
  virtual void conv_inference(const ConvGeometry&, const Tensor& x, PackedConv&, const ConvTail&,
                              Tensor& y);

  // From x, scale and shift: the batch's mean, inv_std (of the biased variance), a and b, into the
  // tensors of Norm; running <- (1 - momentum) running + momentum batch (unbiased variance).
  virtual void norm_statistics(Norm&, float eps, const NormRunning&) = 0;
  // Writes y. Returns what norm_back must know of the ReLU and the pooling, in a form of the
  // backend's own (undefined: nothing); if not `backward`, anything.
  virtual Tensor norm_apply(const Norm&, const NormTail&, bool backward, Tensor& y) = 0;
  // With g = dy where pooling and ReLU let it through, n rows and xhat = (x - mean) inv_std:
  //   d_shift = sum g;  d_scale = sum g xhat;  d_add (null: not wanted) = g;
  //   dx = a (g - d_shift/n - xhat d_scale/n), or a g with given statistics.
  // second: the gradients of tail.second. dx may be x's memory; d_add may be dy's if dx is not.
  virtual void norm_back(const Norm&, const NormTail&, const Tensor& mask, const Tensor& dy,
                         const NormGrads&, const NormGrads* second, Tensor* d_add) = 0;

  // y = scale (x - mean) inv_std + shift. add (null: none) is like x: then sum = x + add is what is
  // normalised, in all rows.
  virtual void layer_norm(const RowNorm&, const Tensor* add, Tensor* sum, Tensor& y) = 0;
  // With xhat = (x - mean) inv_std and g = dy scale: dx (+)= inv_std (g - mean(g) - xhat mean(g
  // xhat)), where the means are of a row, mean(g) counts as zero where `mean` is undefined, and
  // accumulate says whether it is added to dx;
  // d_scale = sum dy xhat and d_shift = sum dy over the rows, undefined: not wanted.
  virtual void layer_norm_back(const RowNorm&, const Tensor& dy, bool accumulate, Tensor& dx,
                               const Tensor& d_scale, const Tensor& d_shift) = 0;

  // y [B, Tq, H D]; log_sums f32 [B, H, Tq]: log sum exp of a query's scores, +inf if it sees no
  // key; undefined: not wanted.
  virtual void attention(const Attention&, Tensor& y, const Tensor& log_sums) = 0;
  // From y, log_sums and dy (like y): the gradients of q, k and v, whose rows lie like theirs.
  virtual void attention_back(const Attention&, const Tensor& y, const Tensor& log_sums,
                              const Tensor& dy, const PackedRows& dq, const PackedRows& dk,
                              const PackedRows& dv) = 0;

  // max_pool2d and avg_pool2d in ops.h. taken: u8 like y, the tap r kernel + s of the first
  // maximum; undefined: not kept.
  virtual void max_pool(const PoolGeometry&, const Tensor& x, Tensor& y, const Tensor& taken) = 0;
  virtual void max_pool_back(const PoolGeometry&, const Tensor& dy, const Tensor& taken,
                             Tensor& dx) = 0;
  virtual void avg_pool(const PoolGeometry&, const Tensor& x, Tensor& y) = 0;
  virtual void avg_pool_back(const PoolGeometry&, const Tensor& dy, Tensor& dx) = 0;
  // The mean over all pixels: x, dx [N, H, W, C]; y, dy [N, C].
  virtual void global_average(const Tensor& x, Tensor& y) = 0;
  virtual void global_average_back(const Tensor& dy, Tensor& dx) = 0;

  // cross_entropy in ops.h, for each row: logits [N, K]; labels i32 [N]; losses f32 [N]; dz = p - q
  // [N, K]: of the type of logits, whose memory it may be; or in 16 bits, of logits in f32; or
  // undefined, if not wanted. Rows whose label is `ignore` give zeros. On a GPU, where the op can't
  // look at labels, another one outside [0, K) makes its row's loss and gradient NaN.
  virtual void softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows&,
                            Tensor& losses, const Tensor& dz) = 0;
  // The same in two calls, for a backend that rather keeps all logits until backward than makes
  // them and their gradient part by part: up to so many bytes; 0: it does not.
  virtual i64 most_logits() const;
  // losses as above; norms f32 [N, 2] for the second call
  virtual void softmax_norms(const Tensor& logits, const Tensor& labels, const LossRows&,
                             Tensor& losses, Tensor& norms);
  // logits <- g share (p - q); g and share f32 []
  virtual void softmax_back(Tensor& logits, const Tensor& labels, const LossRows&,
                            const Tensor& norms, const Tensor& g, const Tensor& share);
};

// the one in use; CPU: "cpu" unless set otherwise; a GPU: "cuda" (backend_cuda.h)
Backend& backend(Device);
// of the CPU; DeviceError lists what this build has
Backend& backend(const std::string& name);

}  // namespace gossamer
