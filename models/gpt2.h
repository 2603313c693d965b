// GPT-2 (Radford et al. 2019): a decoder of transformer blocks with the layer norm in front, which
// predicts the next id at each position. Names are Hugging Face's ("h.0.attn.c_attn.weight").
// Threads: as LanguageNet (language_net.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/models/language_net.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/attention.h"

namespace gossamer::models {

struct Gpt2Options {
  i64 layers = 12, width = 768, heads = 12;
  i64 positions = 1024;  // the longest text that it sees at once, in ids
  i64 vocabulary = 50257;
  i64 ff = 0;        // width inside the blocks (n_inner); 0: 4 width
  bool tied = true;  // the head is the embedding
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
class Gpt2 : public LanguageNet {
 public:
  explicit Gpt2(const Gpt2Options&);  // ConfigError: width is no multiple of heads …
  const Gpt2Options& options() const { return options_; }
  i64 width() const override { return options_.width; }
  i64 vocabulary() const override { return options_.vocabulary; }
  i64 positions() const override { return options_.positions; }

  Tensor hidden(const Tensor& ids) override;
  const Tensor& head() const override { return lm_head_ ? lm_head_->weight() : wte_.weight(); }
  Cache cache(i64 batch) const override;
  i64 cache_numbers() const override {
    return 2 * options_.layers * options_.width * options_.positions;
  }
  Tensor step(const Tensor& ids, Cache&) override;
  Tensor step(const Tensor& ids, const Cache&, const TextPositions&) override;

 private:
  class Block;
  using Attend = std::function<Tensor(std::size_t layer, nn::SelfAttention&, const Tensor&)>;
  Tensor run(const Tensor& ids, const Tensor& positions, const Attend&);
  Tensor positions_from(i64 first, i64 length);  // i32 [length]
  void initialise();

  Gpt2Options options_;
  nn::Embedding &wte_, &wpe_;
  nn::Dropout& drop_;
  nn::Sequential& h_;
  nn::LayerNorm& ln_f_;
  nn::Linear* lm_head_ = nullptr;  // null: tied
  Tensor all_positions_;           // i32 [positions]: 0, 1, 2 …, on the device of the weights
};

}  // namespace gossamer::models
