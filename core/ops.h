// Every op, with its formula and shapes. All have gradients unless they say otherwise.
// Broadcast of the second operand: same shape, one element, or the trailing dimensions of the first
// (a bias). Floating types are f32, bf16 and f16 (the two of 16 bits do not meet in one op);
// formulas compute in f32. ShapeError names the op and both shapes.
// Threads: any; tensors that several threads give to ops may not change meanwhile.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "gossamer/core/autograd.h"
#include "gossamer/core/tensor.h"

namespace gossamer {

class Backend;
class PackedConv;

// --- elementwise (op_elementwise.cpp)
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, float b);
Tensor mul(const Tensor& a, float b);
Tensor neg(const Tensor& x);
Tensor relu(const Tensor& x);  // max(x, 0); gradient 0 at 0
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor gelu(const Tensor& x);  // x Phi(x), exact (erf)
// x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))/2 (Hendrycks and Gimpel 2016); GPT-2's
Tensor gelu_tanh(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor abs(const Tensor& x);               // gradient 0 at 0
Tensor cast(const Tensor& x, DType type);  // f32, bf16, f16
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator*(const Tensor& a, float b) { return mul(a, b); }
inline Tensor operator*(float a, const Tensor& b) { return mul(b, a); }
inline Tensor operator+(const Tensor& a, float b) { return add(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }

// u8 [N, H, W, C] -> (x/255 - mean[c]) / std[c] in a floating type. C = 3. No gradient.
Tensor normalize(const Tensor& images, const std::array<float, 3>& mean,
                 const std::array<float, 3>& std, DType type = DType::f32);

// --- dropout (op_dropout.cpp)

// Training: each element is kept with probability 1-p and scaled by 1/(1-p); element i of call
// (seed, stream) is kept by Philox, so backward and every device draw the same mask. p in [0, 1).
// stream: i64 [] on the device of x; not read if p = 0.
Tensor dropout(const Tensor& x, float p, std::uint64_t seed, const Tensor& stream);
// residual + dropout(x, p, seed, stream) in one pass. residual: the shape and type of x; p in
// [0, 1).
Tensor dropout_add(const Tensor& x, const Tensor& residual, float p, std::uint64_t seed,
                   const Tensor& stream);
// The counter's value, i64 [], and adds 1 to the counter: a stream for each call. It is work of the
// device, so that each launch of a captured graph takes the next number. counter: i64 [].
Tensor take_number(const Tensor& counter);

// --- reductions and losses (op_reduce.cpp, op_loss.cpp)
Tensor sum(const Tensor& x);   // all elements -> rank 0, f32
Tensor mean(const Tensor& x);  // all elements -> rank 0, f32
// [..., D] -> [D]: over all but the last dimension, f32
Tensor sum_rows(const Tensor& x);
Tensor softmax(const Tensor& x);  // over the last dimension
Tensor log_softmax(const Tensor& x);
struct CrossEntropyOptions {
  float label_smoothing = 0;
  // Rows with this label count for nothing, neither in the mean nor in the gradient.
  std::optional<std::int32_t> ignore{};
};
// Mean over the rows that count of -sum_k q_k log p_k, p = softmax(logits), q = (1-a) onehot(label)
// + a/K; 0 if none counts. logits [N, K]; labels i32 [N], each in [0, K) or `ignore` (ShapeError
// names the first that is not). Returns rank 0, f32.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyOptions = {});
// cross_entropy(x table', labels) with x [N, C], table [V, C]. The [N, V] logits exist for some
// rows at a time, and in training both gradients are made on the way. On a GPU, in training in f32
// or bf16, all of them are kept until backward, up to 2 GB, in the type of x.
Tensor head_loss(const Tensor& x, const Tensor& table, const Tensor& labels,
                 CrossEntropyOptions = {});
// How many rows have their label among the k largest logits: rank 0, f32, on the device of the
// logits. NaN never counts; ties count against. On a GPU, where the op cannot look at labels, a row
// whose label is outside [0, K) does not count. No gradient.
Tensor count_top_k(const Tensor& logits, const Tensor& labels, int k);

// --- linear algebra (op_linear.cpp)
// [M, K] x [K, N] -> [M, N]
Tensor matmul(const Tensor& a, const Tensor& b);
// An op that a product may include, without a pass of its own: the op of that name.
enum class Activation { none, relu, gelu, gelu_tanh };
// x [..., K] of rank 2 or more, w [D, K], bias [D] -> activation(x w^T + bias) [..., D]. One
// rounding for all of it; a GPU may round the bias to x's type first. A GELU's argument is kept.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias = {},
              Activation = Activation::none);
// Several linear layers of one x side by side: [..., D1 + D2 + …]. Weights that are all parts of
// one tensor, as those of nn::JoinedLinear, are one product, and so are their gradients in a
// FlatParams; others are copied together. biases: one for each weight, or none.
Tensor joined_linear(const Tensor& x, const std::vector<Tensor>& weights,
                     const std::vector<Tensor>& biases = {});

// --- text (op_embedding.cpp, op_layer_norm.cpp, op_rope.cpp, op_swiglu.cpp, op_attention.cpp)
// Rows of a table: ids i32 [...], table [V, C] -> [..., C]. On a CPU a ShapeError names the first
// id outside [0, V); a GPU, where the op cannot look, gives a row of NaN. The gradient of the table
// adds the rows of one id in their order, in f32.
Tensor embedding(const Tensor& ids, const Tensor& table);
// y = scale (x - mean)/sqrt(var + eps) + shift with the mean and biased variance of each row (Ba et
// al. 2016). x [..., C]; scale and shift f32 [C], shift may be undefined. y has x's shape and type.
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift = {},
                  float eps = 1e-5f);
// sum = x + add, y = layer_norm(sum), in one pass; x and add are alike.
struct NormedSum {
  Tensor y, sum;
};
NormedSum add_layer_norm(const Tensor& x, const Tensor& add, const Tensor& scale,
                         const Tensor& shift = {}, float eps = 1e-5f);
// y = scale x/sqrt(mean(x^2) + eps) for each row (Zhang and Sennrich 2019); else as layer_norm.
Tensor rms_norm(const Tensor& x, const Tensor& scale, float eps = 1e-5f);
NormedSum add_rms_norm(const Tensor& x, const Tensor& add, const Tensor& scale, float eps = 1e-5f);
// rms_norm of each head of q and k in packed rows [B, T, (H + 2 K) D], as attention() below takes
// them; v is kept. scales f32 [D]; D, H and K follow from them and kv_heads.
Tensor rms_norm_heads(const Tensor& qkv, i64 kv_heads, const Tensor& q_scale, const Tensor& k_scale,
                      float eps = 1e-5f);
// Rotary positions (Su et al. 2021) in the form of Hugging Face's files. Columns i and i + D/2 of a
// head are a pair (a, b), which becomes (a cos - b sin, b cos + a sin). table f32 [P, D]: row p
// holds the D/2 cosines, then the sines, of position p. x [B, T, W]: the first `heads` heads of a
// row are rotated, the rest is kept. positions i32 [T] or [B, T]: on a CPU a ShapeError names the
// first one outside [0, P), a GPU, where the op cannot look, gives NaN. The result takes the memory
// of x where nothing else holds it, and so does the gradient: rope(linear(…), …) is in place.
Tensor rope(Tensor x, const Tensor& table, const Tensor& positions, i64 heads);
// y = silu(a) u with silu(a) = a/(1 + e^-a) (Shazeer 2020). x [..., 2F]: a row is a and u side by
// side -> [..., F].
Tensor swiglu(const Tensor& x);
struct AttentionOptions {
  int heads = 1;        // H: of the queries
  int kv_heads = 0;     // K, of keys and values; divides H: head h reads h/(H/K). 0: H
  bool causal = false;  // query i sees keys 0 … first + i only
  i64 first = 0;        // position of the first query among the keys: of a step with a cache
  i64 window = 0;       // causal: query i sees the last `window` of these keys; 0: all
  // i32 [B, Tq]: query i of text b sees no key before begins[b][i], where its document begins; may
  // not fall within a text. Undefined: all are 0.
  Tensor begins = {};
  // The probability of dropping a weight, drawn by Philox(seed, stream) for (b, h, i, j)
  // (ops/attention_mask.h). stream: as that of dropout().
  float dropout = 0;
  std::uint64_t seed = 0;
  Tensor stream = {};
};
// softmax(q k'/sqrt(D)) v for each head of D columns (Vaswani et al. 2017; groups of heads that
// share keys: Ainslie et al. 2023). qkv [B, T, (H + 2 K) D], whose rows are q, k and v side by side
// -> [B, T, H D]. lengths i32 [B]: keys from lengths[b] on are padding, which no query sees;
// undefined: none is. A query that sees no key gets zeros. Nothing of T x T is kept for backward,
// which computes the weights again.
Tensor attention(const Tensor& qkv, const AttentionOptions&, const Tensor& lengths = {});
// The same with queries of their own: q [B, Tq, H D], kv [B, Tk, 2 K D]. Cross-attention;
// and, with kv a cache, causal and first = the number of tokens before q, a step of generation.
Tensor attention(const Tensor& q, const Tensor& kv, const AttentionOptions&,
                 const Tensor& lengths = {});

// --- convolution (op_conv.cpp)
struct ConvOptions {
  int stride = 1, padding = 0, dilation = 1, groups = 1;
};
// y[n,i,j,k] = sum over r,s,c of x[n, row, column, c] w[k,r,s,c], where
//   row = i stride + r dilation - padding,  column = j stride + s dilation - padding.
// x [N,H,W,C]; w [K,R,S,C/groups]; y [N,Ho,Wo,K], of x's type, with
//   Ho = (H + 2 padding - dilation (R-1) - 1)/stride + 1,  Wo alike.
Tensor conv2d(const Tensor& x, const Tensor& w, ConvOptions = {});

// relu?(conv2d(x, w) + bias (+ add)) for inference: weights are put once into the form that the
// device's kernels read, and no gradient is recorded. w as for conv2d; bias f32 [K]. Neither may
// change afterwards.
class InferenceConv {
 public:
  InferenceConv(const Tensor& w, const Tensor& bias, ConvOptions = {});
  // add: like the result, which takes its memory; undefined: nothing is added. The result is no
  // window on x.
  Tensor operator()(const Tensor& x, bool relu, Tensor add = {}) const;

 private:
  std::shared_ptr<PackedConv> weights_;
  Shape shape_;
  DType type_;
  Tensor bias_;
  ConvOptions options_;
  Backend* backend_;  // the one that packed
};

// --- pooling (op_pool.cpp)
struct PoolOptions {
  int kernel = 2, stride = 2, padding = 0;
};
// padding counts as -inf; the first maximum takes the gradient
Tensor max_pool2d(const Tensor& x, PoolOptions = {});
// padding counts as zero and is counted (torch: count_include_pad)
Tensor avg_pool2d(const Tensor& x, PoolOptions = {});
Tensor global_avg_pool(const Tensor& x);  // [N, H, W, C] -> [N, C]
// Parameter-free shortcut of the CIFAR ResNets (He et al. 2015, option A): every `stride`-th pixel,
// with more channels: [N, H, W, C] -> [N, ceil(H/stride), ceil(W/stride), channels]. The new ones
// are zero; (channels - C)/2 of them lie before the old ones, the rest after.
Tensor subsample_pad(const Tensor& x, int stride, i64 channels);

// --- mixup and CutMix (op_mix.cpp)
// y[n,h,w,c] = a x[n,h,w,c] + (1-a) x[n-1,h,w,c], where x[-1] is the last image and
//   a = inside  if top <= h < bottom and left <= w < right,  else outside.
// x [N, H, W, C]; plan: f32 [6] on the same device, (outside, inside, top, bottom, left, right).
// No gradient of plan.
Tensor mix_batch(const Tensor& x, const Tensor& plan);

// --- batch norm (op_norm.cpp)
struct BatchNormOptions {
  // running <- (1 - momentum) running + momentum batch (unbiased variance)
  float eps = 1e-5f, momentum = 0.1f;
  bool training = true, relu = false;
};
// y = relu?(scale (x - mean)/sqrt(var + eps) + shift + add?). x [..., C]; scale, shift, running_*
// f32 [C]; add: the shape and type of x, or undefined. Training uses the batch statistics and
// updates running_* (if defined).
Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, Tensor running_mean,
                  Tensor running_var, BatchNormOptions = {}, const Tensor& add = {});
// A batch norm as a part of a larger op: what it normalises and its own numbers, shaped as above.
// options.relu is not read.
struct NormInput {
  Tensor x, scale, shift, running_mean, running_var;
  BatchNormOptions options{};
};
// Two ends of a ResNet, which a GPU computes in one pass forward and two backward.
// relu(batch_norm(a) + batch_norm(b)): a block whose shortcut is projected
Tensor batch_norm_sum(const NormInput& a, const NormInput& b);
// max_pool2d(relu(batch_norm(a)), {3, 2, 1}): the stem; x [N, H, W, C]
Tensor batch_norm_pool(const NormInput& a);

}  // namespace gossamer
