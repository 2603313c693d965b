// See attention.h.
#include "gossamer/nn/attention.h"

#include <cmath>

#include "gossamer/nn/init.h"

namespace gossamer::nn {
namespace {

void check_sizes(const char* layer, i64 width, const AttentionLayerOptions& o) {
  check<ConfigError>(width > 0 && o.heads > 0 && width % o.heads == 0, layer, ": width ", width,
                     " cannot be divided among ", o.heads, " heads");
}

// [B, T, C] through a Linear, which takes rows.
Tensor through(Linear& layer, const Tensor& x) {
  check<ShapeError>(x.rank() == 3, "attention layer: input is ", x.shape(), "; wanted [B, T, C]");
  return layer(x.reshape({-1, x.shape(2)})).reshape({x.shape(0), x.shape(1), -1});
}

AttentionOptions options_of(const AttentionLayerOptions& o, bool causal, Dropout& drop) {
  const auto [p, seed, stream] = drop.draw();
  return {.heads = o.heads, .causal = causal, .dropout = p, .seed = seed, .stream = stream};
}

// Columns [begin, begin + to.shape(2)) of `from` into rows [at, at + T) of each batch entry.
void copy_columns(const Tensor& from, i64 begin, const Tensor& to, i64 at) {
  const i64 batch = from.shape(0), rows = from.shape(1), width = to.shape(2);
  const i64 room = to.shape(1);
  const Tensor lines = from.reshape({batch * rows * (from.shape(2) / width), width}),
               places = to.reshape({batch * room, width});
  const i64 parts = from.shape(2) / width;
  for (i64 b = 0; b < batch; ++b)
    for (i64 t = 0; t < rows; ++t) {
      const i64 line = (b * rows + t) * parts + begin / width, place = b * room + at + t;
      places.slice(place, place + 1).copy_from(lines.slice(line, line + 1));
    }
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
