// The transformer of Vaswani et al. 2017: an encoder reads a sentence, a decoder writes its
// translation. One table for source, target and head.
// Threads: as Module (nn/module.h); one at a time for a Cache.
#pragma once

#include <span>
#include <vector>

#include "gossamer/models/registry.h"
#include "gossamer/nn/attention.h"

namespace gossamer::models {

struct TransformerOptions {
  i64 layers = 6, width = 512, ff = 2048, heads = 8;  // layers: of the encoder, and of the decoder
  i64 vocabulary = 37120;
  i64 positions = 400;  // longest sentence, in ids
  // The defaults of dropout (published: 0.1) and norm_first are those of ModelOptions.
  float dropout = static_cast<float>(ModelOptions().dropout);
  float eps = 1e-5f;
  // false: the layer norm behind each branch, as published; true: in front of it. Both end with a
  // layer norm of encoder and decoder, as torch.nn.Transformer does.
  bool norm_first = ModelOptions().norm_first;

  template <class Self, class F>
  static void visit(Self& self, F&& f) {  // see named_options.h
    f("layers", self.layers);
    f("width", self.width);
    f("heads", self.heads);
    f("ff", self.ff);
    f("positions", self.positions);
    f("norm_first", self.norm_first);
  }
};
// The options of the model with this name, and what ModelOptions say otherwise. ConfigError for an
// unknown name.
TransformerOptions transformer_options(const std::string& name, const ModelOptions&);

// Starts as Decent-DP's: the table at uniform(-0.1, 0.1), other matrices Xavier uniform, biases 0.
class Transformer : public nn::Module {
 public:
  explicit Transformer(const TransformerOptions&);
  const TransformerOptions& options() const { return options_; }

  // source i32 [B, S]; lengths i32 [B]: what follows is padding; undefined: nothing is.
  // Returns what the decoder reads, [B, S, width].
  Tensor encode(const Tensor& source, const Tensor& lengths);
  // inputs i32 [B, T], the begin mark in front -> [B, T, width], behind the last layer norm.
  Tensor decode(const Tensor& memory, const Tensor& source_lengths, const Tensor& inputs);
  Tensor logits(const Tensor& decoded) const;  // [..., width] -> [..., vocabulary]
  Tensor forward(const Tensor& source) override { return encode(source, {}); }
  // The mean cross entropy of the labels i32 [B, T] that are not -1, [].
  Tensor loss(const Tensor& source, const Tensor& source_lengths, const Tensor& inputs,
              const Tensor& labels, float label_smoothing = 0);

  // Keys and values of a translation that grows, of each layer: of its own ids so far, and of the
  // source.
  struct Cache {
    std::vector<Tensor> own;  // [B, capacity, 2 width]
    i64 length = 0;           // ids so far
    // Each of the M sources is held once: B is a multiple of M, and the rows of a source are
    // neighbours.
    std::vector<Tensor> memory;  // [M, S, 2 width]
    Tensor lengths;              // i32 [M]
    std::vector<i64> source;     // of each row, 0 … M - 1
  };
  Cache cache(const Tensor& memory, const Tensor& source_lengths, i64 capacity);
  // Row i goes on with what row rows[i] was. Copies what the rows have so far, and a source only if
  // others are gone.
  static Cache rows_of(const Cache&, std::span<const i64> rows);
  // The logits [B, vocabulary] behind ids [B, 1], which join the cache. Not recorded.
  Tensor step(const Tensor& ids, Cache&);

 private:
  class EncoderLayer;
  class DecoderLayer;
  class Stack;
  Tensor embed(const Tensor& ids, i64 first);

  TransformerOptions options_;
  nn::Embedding& embedding_;
  nn::Dropout& drop_;
  Stack &encoder_, &decoder_;
  Tensor positions_;  // sinusoids, [positions, width], as the table has its type and device
};

}  // namespace gossamer::models
