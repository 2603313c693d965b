// The transformer of Vaswani et al. 2017: an encoder reads a sentence, a decoder writes its
// translation. One table for source, target and head.
// Threads: as Module (nn/module.h); one at a time for a Cache.
#pragma once

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

  // Keys and values of translations that grow, of each layer. The R rows are those of M sources,
  // one source after the other, with equally many each.
  struct Cache {
    std::vector<Tensor> own;     // of the ids so far: [R, capacity, 2 width]
    std::vector<Tensor> memory;  // of the sources: [M, S, 2 width]
    Tensor lengths;              // i32 [M]
  };
  // Nothing so far, with rows_each rows for a source; memory as encode() gives it.
  Cache cache(const Tensor& memory, const Tensor& source_lengths, i64 rows_each, i64 capacity);
  std::vector<Tensor> keys_values(const Tensor& memory);  // Cache::memory
  // The logits [R, vocabulary] behind one id of each row, i32 [R], which joins the cache where the
  // positions say. It reads nothing of the host; the caller advances the positions. Not recorded.
  Tensor step(const Tensor& ids, const Cache&, const TextPositions&);

 private:
  class EncoderLayer;
  class DecoderLayer;
  class Stack;
  // positions: the sinusoids of the ids
  Tensor embed(const Tensor& ids, const Tensor& positions);
  Tensor embed_whole(const Tensor& ids);  // [B, T], from the first position on
  const Tensor& sinusoids();

  TransformerOptions options_;
  nn::Embedding& embedding_;
  nn::Dropout& drop_;
  Stack &encoder_, &decoder_;
  Tensor sinusoids_;  // [positions, width], as the table has its type and device
};

}  // namespace gossamer::models
