// GPT-2 (Radford et al. 2019): a decoder of transformer blocks with the layer norm in front, which
// predicts the next id at each position. Names are Hugging Face's ("h.0.attn.c_attn.weight").
// Threads: as Module (nn/module.h); one at a time for a Cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/models/registry.h"
#include "gossamer/nn/attention.h"

namespace gossamer::models {

struct Gpt2Options {
  i64 layers = 12, width = 768, heads = 12;
  i64 positions = 1024;  // the longest text that it sees at once, in ids
  i64 vocabulary = 50257;
  // GPT-2 of OpenAI and Hugging Face has biases and the tanh form of GELU; nanoGPT's, which
  // Decent-DP trains, has no biases and the form erf. The defaults are those of ModelOptions.
  bool bias = ModelOptions().bias;
  std::string gelu = ModelOptions().gelu;
  // behind the embedding, of attention weights, behind each branch
  float dropout = static_cast<float>(ModelOptions().dropout);
  float eps = 1e-5f;
  bool operator==(const Gpt2Options&) const = default;

  template <class Self, class F>
  static void visit(Self& self, F&& f) {  // see named_options.h
    f("layers", self.layers);
    f("width", self.width);
    f("heads", self.heads);
    f("positions", self.positions);
    f("bias", self.bias);
    f("gelu", self.gelu);
  }
};
// The options of the model with this name, and what ModelOptions say otherwise. ConfigError for an
// unknown name.
Gpt2Options gpt2_options(const std::string& name, const ModelOptions&);
// GPT-2's heads are 64 wide, in all sizes: how many a model of this width has.
i64 gpt2_heads(i64 width);

// Starts at normal(0, 0.02), projections back into the stream at 0.02/sqrt(2 layers), biases 0.
class Gpt2 : public nn::Module {
 public:
  explicit Gpt2(const Gpt2Options&);  // ConfigError: width is no multiple of heads …
  const Gpt2Options& options() const { return options_; }

  // ids i32 [B, T], T <= positions -> [B, T, width], behind the last layer norm.
  Tensor hidden(const Tensor& ids);
  Tensor logits(const Tensor& hidden) const;  // [..., width] -> [..., vocabulary]
  Tensor forward(const Tensor& ids) override { return logits(hidden(ids)); }
  // The mean cross entropy of the labels i32 [B, T] that are not -1, []. The logits never exist as
  // a whole.
  Tensor loss(const Tensor& ids, const Tensor& labels, float label_smoothing = 0);

  // Keys and values of the ids so far, of each layer.
  struct Cache {
    std::vector<Tensor> layers;
    i64 length = 0;
  };
  Cache cache(i64 batch) const;  // empty, with room for `positions`
  // The logits [B, vocabulary] behind the last of ids [B, T], which follow those in the cache and
  // join them. Not recorded. ShapeError if the cache is full.
  Tensor step(const Tensor& ids, Cache&);
  // The same for one id of each text, where the device says that they are: it reads no length, and
  // the caller advances it, with the positions.
  Tensor step(const Tensor& ids, const Cache&, const TextPositions&);

 private:
  class Block;
  using Attend = std::function<Tensor(std::size_t layer, nn::SelfAttention&, const Tensor&)>;
  Tensor run(const Tensor& ids, const Tensor& positions, const Attend&);
  Tensor positions(i64 first, i64 length);  // i32 [length]
  void initialise();

  Gpt2Options options_;
  nn::Embedding &wte_, &wpe_;
  nn::Dropout& drop_;
  nn::Sequential& h_;
  nn::LayerNorm& ln_f_;
  Tensor all_positions_;  // i32 [positions]: 0, 1, 2 …, on the device of the weights
};

}  // namespace gossamer::models
