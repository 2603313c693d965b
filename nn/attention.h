// What transformers are made of besides Linear: embeddings, norms of rows, attention and positions.
// Threads: as Module (module.h); one at a time for a cache.
#pragma once

#include "gossamer/nn/layers.h"

namespace gossamer {
class TextPositions;  // core/ops/decode.h
}

namespace gossamer::nn {

// weight [rows, width], drawn from normal(0, deviation).
class Embedding : public Module {
 public:
  Embedding(i64 rows, i64 width, float deviation = 1);
  Tensor forward(const Tensor& ids) override;       // i32 [...] -> [..., width]
  const Tensor& weight() const { return weight_; }  // of a tied head: head_loss(x, weight(), …)

 private:
  Tensor weight_;
};

struct LayerNormOptions {
  float eps = 1e-5f;
  bool bias = true;
};
// weight 1, bias 0: f32 [width].
class LayerNorm : public Module {
 public:
  explicit LayerNorm(i64 width, LayerNormOptions = {});
  Tensor forward(const Tensor& x) override;                    // [..., width]
  NormedSum of_sum(const Tensor& x, const Tensor& add) const;  // of x + add, and that sum

 private:
  LayerNormOptions options_;
  Tensor weight_, bias_;
};

// weight 1: f32 [width]. Of rows, without mean and bias (rms_norm in core/ops.h).
class RmsNorm : public Module {
 public:
  RmsNorm(i64 width, float eps);
  Tensor forward(const Tensor& x) override;                    // [..., width]
  NormedSum of_sum(const Tensor& x, const Tensor& add) const;  // of x + add, and that sum
  const Tensor& weight() const { return weight_; }

 private:
  float eps_;
  Tensor weight_;
};

struct AttentionLayerOptions {
  int heads = 1;
  bool causal = false, bias = true;
  float dropout = 0;                             // of the weights, in training mode
  std::string in = "in_proj", out = "out_proj";  // names of the children
};
// Children `in` (width -> 3 width: q, k, v), `out` (width -> width) and drop, which draws the
// masks.
class SelfAttention : public Module {
 public:
  SelfAttention(i64 width, AttentionLayerOptions);
  Tensor forward(const Tensor& x) override { return apply(x, {}); }  // [B, T, width], like x
  // lengths: as in attention() of core/ops.h
  Tensor apply(const Tensor& x, const Tensor& lengths);
  // Keys and values of the tokens so far, for generation: zeros [B, capacity, 2 width], of the
  // weight's type and device.
  Tensor cache(i64 batch, i64 capacity) const;
  // The same for T further tokens behind `first`, causal, whose keys and values join the cache. Not
  // recorded. ShapeError if the cache is full.
  Tensor step(const Tensor& x, const Tensor& cache, i64 first);
  // For one token of each text, where the device says that they are.
  Tensor step(const Tensor& x, const Tensor& cache, const TextPositions&);

 private:
  void check_step(const Tensor& x, const Tensor& cache) const;

  i64 width_;
  AttentionLayerOptions options_;
  Linear &in_, &out_;
  Dropout& drop_;
};

// Children q_proj (width -> width), kv_proj (width -> 2 width), `out` and drop.
class CrossAttention : public Module {
 public:
  CrossAttention(i64 width, AttentionLayerOptions);  // causal and `in` are not read
  // attends to itself: forward(x) = apply(x, keys_values(x), {})
  Tensor forward(const Tensor& x) override;
  Tensor keys_values(const Tensor& memory);  // [B, S, width] -> [B, S, 2 width]: once a sentence
  Tensor apply(const Tensor& x, const Tensor& kv, const Tensor& lengths);

 private:
  AttentionLayerOptions options_;
  Linear &q_, &kv_, &out_;
  Dropout& drop_;
};

// f32 [length, width] of Vaswani et al. 2017: sin(p / 10000^(2i/width)) in the even columns 2i, the
// cosine in the odd ones. width is even.
Tensor sinusoidal_positions(i64 length, i64 width);

}  // namespace gossamer::nn
