// See transformer.h.
#include "gossamer/models/transformer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops/decode.h"
#include "gossamer/models/named_options.h"
#include "gossamer/models/residual.h"
#include "gossamer/models/transformer_file.h"
#include "gossamer/nn/init.h"

namespace gossamer::models {
namespace {

const TransformerOptions& checked(const TransformerOptions& o) {
  check_settings(named_options(o), "transformer");
  check<ConfigError>(o.width % 2 == 0 && o.width % o.heads == 0 && o.vocabulary >= 1,
                     "transformer: a width of ", o.width, " with ", o.heads, " heads, ",
                     o.vocabulary,
                     " ids; the width must be even and a multiple of the heads, and "
                     "there must be an id");
  return o;
}

nn::AttentionLayerOptions attention_options(const TransformerOptions& o, bool causal) {
  return {.heads = static_cast<int>(o.heads), .causal = causal, .dropout = o.dropout};
}

// linear2(dropout(relu(linear1(x)))), whose layers belong to the layer around it, as torch names
// them.
class FeedForward {
 public:
  FeedForward(nn::Linear& linear1, nn::Linear& linear2, nn::Dropout& drop)
      : linear1_(linear1), linear2_(linear2), drop_(drop) {}
  Tensor operator()(const Tensor& x) const { return linear2_(drop_(linear1_(x))); }

 private:
  nn::Linear &linear1_, &linear2_;
  nn::Dropout& drop_;
};

}  // namespace

class Transformer::EncoderLayer : public nn::Module {
 public:
  explicit EncoderLayer(const TransformerOptions& o)
      : first_(o.norm_first),
        self_attn_(add("self_attn", nn::SelfAttention(o.width, attention_options(o, false)))),
        linear1_(add("linear1", nn::Linear(o.width, o.ff, {.activation = Activation::relu}))),
        linear2_(add("linear2", nn::Linear(o.ff, o.width))),
        norm1_(add("norm1", nn::LayerNorm(o.width, {.eps = o.eps}))),
        norm2_(add("norm2", nn::LayerNorm(o.width, {.eps = o.eps}))),
        drop_(add("drop", nn::Dropout(o.dropout))),
        ff_(linear1_, linear2_, drop_) {}
  Tensor forward(const Tensor& x) override {
    const Stream s = apply({x, {}}, {});
    return s.add.defined() ? gossamer::add(s.x, s.add) : s.x;
  }
  Stream apply(const Stream& s, const Tensor& lengths) {
    const Stream attended = branch(norm1_, drop_, first_, s,
                                   [&](const Tensor& y) { return self_attn_.apply(y, lengths); });
    return branch(norm2_, drop_, first_, attended, ff_);
  }

 private:
  bool first_;
  nn::SelfAttention& self_attn_;
  nn::Linear &linear1_, &linear2_;
  nn::LayerNorm &norm1_, &norm2_;
  nn::Dropout& drop_;
  FeedForward ff_;
};

class Transformer::DecoderLayer : public nn::Module {
 public:
  explicit DecoderLayer(const TransformerOptions& o)
      : first_(o.norm_first),
        self_attn_(add("self_attn", nn::SelfAttention(o.width, attention_options(o, true)))),
        multihead_attn_(
            add("multihead_attn", nn::CrossAttention(o.width, attention_options(o, false)))),
        linear1_(add("linear1", nn::Linear(o.width, o.ff, {.activation = Activation::relu}))),
        linear2_(add("linear2", nn::Linear(o.ff, o.width))),
        norm1_(add("norm1", nn::LayerNorm(o.width, {.eps = o.eps}))),
        norm2_(add("norm2", nn::LayerNorm(o.width, {.eps = o.eps}))),
        norm3_(add("norm3", nn::LayerNorm(o.width, {.eps = o.eps}))),
        drop_(add("drop", nn::Dropout(o.dropout))),
        ff_(linear1_, linear2_, drop_) {}
  // A decoder without a source reads itself.
  Tensor forward(const Tensor& x) override {
    const Stream s = apply({x, {}}, keys_values(x), {}, nullptr, nullptr);
    return s.add.defined() ? gossamer::add(s.x, s.add) : s.x;
  }
  // cache, positions: of the ids so far; null: the inputs are a whole
  Stream apply(const Stream& s, const Tensor& memory_kv, const Tensor& lengths, const Tensor* cache,
               const TextPositions* positions) {
    const Stream own = branch(norm1_, drop_, first_, s, [&](const Tensor& y) {
      return cache ? self_attn_.step(y, *cache, *positions) : self_attn_.forward(y);
    });
    const Stream attended = branch(norm2_, drop_, first_, own, [&](const Tensor& y) {
      // rows that read the same source are its queries
      const i64 sources = memory_kv.shape(0);
      if (y.shape(0) == sources) return multihead_attn_.apply(y, memory_kv, lengths);
      return multihead_attn_.apply(y.reshape({sources, -1, y.shape(2)}), memory_kv, lengths)
          .reshape(y.shape());
    });
    return branch(norm3_, drop_, first_, attended, ff_);
  }
  Tensor keys_values(const Tensor& memory) { return multihead_attn_.keys_values(memory); }
  const nn::SelfAttention& self_attention() const { return self_attn_; }

 private:
  bool first_;
  nn::SelfAttention& self_attn_;
  nn::CrossAttention& multihead_attn_;
  nn::Linear &linear1_, &linear2_;
  nn::LayerNorm &norm1_, &norm2_, &norm3_;
  nn::Dropout& drop_;
  FeedForward ff_;
};

// Layers and the layer norm behind them, as torch names them.
class Transformer::Stack : public nn::Module {
 public:
  template <class Layer>
  Stack(const TransformerOptions& o, std::in_place_type_t<Layer>)
      : Module(),  // clang wants it said in a template
        layers(add("layers", nn::Sequential())),
        norm(add("norm", nn::LayerNorm(o.width, {.eps = o.eps}))) {
    for (i64 i = 0; i < o.layers; ++i) layers.push(Layer(o));
  }
  Tensor forward(const Tensor& x) override { return norm(layers(x)); }
  nn::Sequential& layers;
  nn::LayerNorm& norm;
};

Transformer::Transformer(const TransformerOptions& options)
    : options_(checked(options)),
      embedding_(add("embedding", nn::Embedding(options.vocabulary, options.width))),
      drop_(add("drop", nn::Dropout(options.dropout))),
      encoder_(add("encoder", Stack(options, std::in_place_type<EncoderLayer>))),
      decoder_(add("decoder", Stack(options, std::in_place_type<DecoderLayer>))) {
  for (NamedTensor& p : parameters()) {
    if (p.tensor.rank() == 2) {
      const bool table = p.name == "embedding.weight";
      // q, k and v are one matrix in torch, and so is their fan; here cross-attention has two
      const bool part =
          p.name.find("q_proj") != std::string::npos || p.name.find("kv_proj") != std::string::npos;
      const auto fan =
          static_cast<float>(part ? 4 * options.width : p.tensor.shape(0) + p.tensor.shape(1));
      const float bound = table ? 0.1f : std::sqrt(6 / fan);
      p.tensor.copy_from(nn::uniform(p.tensor.shape(), -bound, bound, nn::init_rng()));
    } else if (p.name.ends_with("bias")) {
      p.tensor.zero();
    }
  }
}

const Tensor& Transformer::sinusoids() {
  const Tensor& table = embedding_.weight();
  if (!sinusoids_.defined() || sinusoids_.dtype() != table.dtype() ||
      sinusoids_.device() != table.device())
    sinusoids_ = nn::sinusoidal_positions(options_.positions, options_.width)
                     .to(table.device())
                     .to(table.dtype());
  return sinusoids_;
}

Tensor Transformer::embed(const Tensor& ids, const Tensor& positions) {
  const Tensor x = mul(embedding_(ids), std::sqrt(static_cast<float>(options_.width)));
  return drop_(gossamer::add(x, positions));
}

Tensor Transformer::embed_whole(const Tensor& ids) {
  check<ShapeError>(ids.rank() == 2 && ids.shape(1) <= options_.positions, "transformer: ids ",
                    ids.shape(), " are more than its ", options_.positions, " positions");
  return embed(ids, sinusoids().slice(0, ids.shape(1)));
}

Tensor Transformer::encode(const Tensor& source, const Tensor& lengths) {
  Stream s{embed_whole(source), {}};
  for (std::size_t i = 0; i < encoder_.layers.size(); ++i)
    s = static_cast<EncoderLayer&>(encoder_.layers[i]).apply(s, lengths);
  return join(encoder_.norm, drop_, s).y;
}

Tensor Transformer::decode(const Tensor& memory, const Tensor& source_lengths,
                           const Tensor& inputs) {
  Stream s{embed_whole(inputs), {}};
  for (std::size_t i = 0; i < decoder_.layers.size(); ++i) {
    auto& layer = static_cast<DecoderLayer&>(decoder_.layers[i]);
    s = layer.apply(s, layer.keys_values(memory), source_lengths, nullptr, nullptr);
  }
  return join(decoder_.norm, drop_, s).y;
}

Tensor Transformer::logits(const Tensor& decoded) const {
  return linear(decoded, embedding_.weight());
}

Tensor Transformer::loss(const Tensor& source, const Tensor& source_lengths, const Tensor& inputs,
                         const Tensor& labels, float label_smoothing) {
  const Tensor decoded = decode(encode(source, source_lengths), source_lengths, inputs);
  return head_loss(decoded.reshape({-1, options_.width}), embedding_.weight(), labels.reshape({-1}),
                   {.label_smoothing = label_smoothing, .ignore = -1});
}

std::vector<Tensor> Transformer::keys_values(const Tensor& memory) {
  const NoGrad no_grad;
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < decoder_.layers.size(); ++i)
    out.push_back(static_cast<DecoderLayer&>(decoder_.layers[i]).keys_values(memory));
  return out;
}

Transformer::Cache Transformer::cache(const Tensor& memory, const Tensor& source_lengths,
                                      i64 rows_each, i64 capacity) {
  Cache out{.own = {}, .memory = keys_values(memory), .lengths = source_lengths};
  for (std::size_t i = 0; i < decoder_.layers.size(); ++i)
    out.own.push_back(static_cast<DecoderLayer&>(decoder_.layers[i])
                          .self_attention()
                          .cache(memory.shape(0) * rows_each, capacity));
  return out;
}

Tensor Transformer::step(const Tensor& ids, const Cache& cache, const TextPositions& positions) {
  const NoGrad no_grad;
  check<ShapeError>(ids.rank() == 1 && ids.shape(0) == cache.own[0].shape(0),
                    "transformer: a step takes one id of each row, [", cache.own[0].shape(0),
                    "], not ", ids.shape());
  const i64 rows = ids.shape(0);
  Stream s{embed(ids.reshape({rows, 1}),
                 take_rows(sinusoids(), positions.at()).reshape({rows, 1, options_.width})),
           {}};
  for (std::size_t i = 0; i < decoder_.layers.size(); ++i)
    s = static_cast<DecoderLayer&>(decoder_.layers[i])
            .apply(s, cache.memory[i], cache.lengths, &cache.own[i], &positions);
  return logits(join(decoder_.norm, drop_, s).y.reshape({-1, options_.width}));
}

// --- the family

namespace {

struct Size {
  ModelInfo info;
  i64 width, ff, heads;
};
const std::vector<Size>& sizes() {
  static const TransformerOptions base;
  static const auto& rows = *new std::vector<Size>{
      {{"transformer", "base, of Vaswani et al. 2017", base.vocabulary},
       base.width,
       base.ff,
       base.heads},
      {{"transformer-big", "big, of Vaswani et al. 2017", base.vocabulary}, 1024, 4096, 16}};
  return rows;
}

}  // namespace

TransformerOptions transformer_options(const std::string& name, const ModelOptions& o) {
  info(name, "translation");
  const Size& size = *std::ranges::find(sizes(), name, [](const Size& s) { return s.info.name; });
  TransformerOptions out{.width = size.width, .ff = size.ff, .heads = size.heads};
  set_options(out, settings_of(o));
  out.vocabulary = o.classes.value_or(out.vocabulary);
  if (o.norm_first) out.eps = 1e-6f;
  out.dropout = static_cast<float>(o.dropout);
  return out;
}

Family transformer_family() {
  Family out{
      .name = "transformer",
      .task = "translation",
      .options = taken_by<TransformerOptions>(),
      .models = {},
      .make = [](const std::string& name, const ModelOptions& o) -> std::unique_ptr<nn::Module> {
        return std::make_unique<Transformer>(transformer_options(name, o));
      },
      .weights = transformer_weights};
  for (const Size& size : sizes()) out.models.push_back(size.info);
  return out;
}

}  // namespace gossamer::models
