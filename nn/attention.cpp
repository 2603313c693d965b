// See attention.h.
#include "gossamer/nn/attention.h"

#include <cmath>

#include "gossamer/core/ops/decode.h"
#include "gossamer/nn/init.h"

namespace gossamer::nn {
namespace {

void check_sizes(const char* layer, i64 width, const AttentionLayerOptions& o) {
  check<ConfigError>(width > 0 && o.heads > 0 && width % o.heads == 0, layer, ": width ", width,
                     " cannot be divided among ", o.heads, " heads");
}

AttentionOptions options_of(const AttentionLayerOptions& o, bool causal, Dropout& drop) {
  const auto [p, seed, stream] = drop.draw();
  return {.heads = o.heads, .causal = causal, .dropout = p, .seed = seed, .stream = stream};
}

}  // namespace

Embedding::Embedding(i64 rows, i64 width, float deviation) {
  check<ConfigError>(rows > 0 && width > 0, "Embedding: ", rows, " rows of ", width,
                     "; both must be positive");
  weight_ = param("weight", normal({rows, width}, 0, deviation, init_rng()));
}

Tensor Embedding::forward(const Tensor& ids) { return embedding(ids, weight_); }

LayerNorm::LayerNorm(i64 width, LayerNormOptions options) : options_(options) {
  check<ConfigError>(width > 0, "LayerNorm: width ", width, "; wanted at least 1");
  weight_ = param("weight", Tensor::full({width}, 1));
  if (options.bias) bias_ = param("bias", Tensor::zeros({width}));
}

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, weight_, bias_, options_.eps); }

NormedSum LayerNorm::of_sum(const Tensor& x, const Tensor& add) const {
  return add_layer_norm(x, add, weight_, bias_, options_.eps);
}

RmsNorm::RmsNorm(i64 width, float eps) : eps_(eps) {
  check<ConfigError>(width > 0 && eps > 0, "RmsNorm: width ", width, ", eps ", eps,
                     "; both must be positive");
  weight_ = param("weight", Tensor::full({width}, 1));
}

Tensor RmsNorm::forward(const Tensor& x) { return rms_norm(x, weight_, eps_); }

NormedSum RmsNorm::of_sum(const Tensor& x, const Tensor& add) const {
  return add_rms_norm(x, add, weight_, eps_);
}

SelfAttention::SelfAttention(i64 width, AttentionLayerOptions options)
    : width_(width),
      options_((check_sizes("SelfAttention", width, options), std::move(options))),
      in_(add(options_.in, Linear(width, 3 * width, {.bias = options_.bias}))),
      out_(add(options_.out, Linear(width, width, {.bias = options_.bias}))),
      drop_(add("drop", Dropout(options_.dropout))) {}

Tensor SelfAttention::apply(const Tensor& x, const Tensor& lengths) {
  return out_(attention(in_(x), options_of(options_, options_.causal, drop_), lengths));
}

Tensor SelfAttention::cache(i64 batch, i64 capacity) const {
  const Tensor weight = in_.parameters().front().tensor;
  // Zeros: what a query does not see may be multiplied by 0, and nobody knows what memory holds.
  return Tensor::zeros({batch, capacity, 2 * width_}, weight.dtype(), weight.device());
}

void SelfAttention::check_step(const Tensor& x, const Tensor& cache) const {
  check<ShapeError>(x.rank() == 3 && x.shape(0) == cache.shape(0), "SelfAttention: input ",
                    x.shape(), " and cache ", cache.shape(), " do not fit");
}

Tensor SelfAttention::step(const Tensor& x, const Tensor& cache, i64 first) {
  const NoGrad off;
  check_step(x, cache);
  AttentionOptions options = options_of(options_, true, drop_);
  options.first = first;
  const Tensor q = append_keys_values(in_(x), cache, first);
  return out_(attention(q, cache, options));
}

Tensor SelfAttention::step(const Tensor& x, const Tensor& cache, const TextPositions& positions) {
  const NoGrad off;
  check_step(x, cache);
  check<ShapeError>(x.shape(1) == 1, "SelfAttention: input ", x.shape(),
                    "; wanted one token of each text, [B, 1, width]");
  const Tensor q = append_keys_values(in_(x), cache, positions);
  return out_(attention(q, cache, options_of(options_, false, drop_), positions.seen()));
}

CrossAttention::CrossAttention(i64 width, AttentionLayerOptions options)
    : options_((check_sizes("CrossAttention", width, options), std::move(options))),
      q_(add("q_proj", Linear(width, width, {.bias = options_.bias}))),
      kv_(add("kv_proj", Linear(width, 2 * width, {.bias = options_.bias}))),
      out_(add(options_.out, Linear(width, width, {.bias = options_.bias}))),
      drop_(add("drop", Dropout(options_.dropout))) {}

Tensor CrossAttention::forward(const Tensor& x) { return apply(x, keys_values(x), {}); }

Tensor CrossAttention::keys_values(const Tensor& memory) { return kv_(memory); }

Tensor CrossAttention::apply(const Tensor& x, const Tensor& kv, const Tensor& lengths) {
  return out_(attention(q_(x), kv, options_of(options_, false, drop_), lengths));
}

Tensor sinusoidal_positions(i64 length, i64 width) {
  check<ShapeError>(length >= 0 && width > 0 && width % 2 == 0, "sinusoidal_positions: ", length,
                    " positions of width ", width, "; the width must be even");
  Tensor all = Tensor::empty({length, width});
  for (i64 p = 0; p < length; ++p)
    for (i64 i = 0; i < width; i += 2) {
      const double angle = static_cast<double>(p) *
                           std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(width));
      float* pair = all.as<float>() + p * width + i;
      pair[0] = static_cast<float>(std::sin(angle));
      pair[1] = static_cast<float>(std::cos(angle));
    }
  return all;
}

}  // namespace gossamer::nn
