// LLaMA's kind of model (Touvron et al. 2023): a decoder with RMS norms, rotary positions, heads
// that share keys and a gated MLP. By its options it is a Llama, Mistral, Qwen2 or Qwen3; SmolLM
// and TinyLlama are Llamas. Names are Hugging Face's without "model."
// ("layers.0.self_attn.q_proj.weight").
// Threads: as LanguageNet (language_net.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/models/language_net.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/attention.h"

namespace gossamer::nn {
struct LoraOptions;  // nn/lora.h
}

namespace gossamer::models {

// How the frequencies theta^(-2i/D) of rotary positions are changed, for long texts: not at all;
// linear: divided by `factor`; llama3: divided where a wave is longer than old_positions/low, kept
// where it is shorter than old_positions/high, and between them mixed.
struct RopeScaling {
  std::string type = "default";  // default | linear | llama3
  double factor = 1, low = 1, high = 4;
  i64 old_positions = 8192;
  bool operator==(const RopeScaling&) const = default;
};

struct LlamaOptions {
  std::string type = "llama";  // of Hugging Face's models: llama | mistral | qwen2 | qwen3
  i64 layers = 12, width = 288, heads = 6, kv_heads = 6;
  i64 head_size = 48;  // even; heads * head_size need not be the width
  i64 ff = 768;        // width inside the MLP
  i64 positions = 2048;
  i64 vocabulary = 32000;
  double theta = 10000;
  RopeScaling scaling{};
  float eps = 1e-5f;
  bool tied = false;        // the head is the embedding
  bool qkv_bias = false;    // of q_proj, k_proj and v_proj
  bool out_bias = false;    // of o_proj
  bool mlp_bias = false;    // of gate_proj, up_proj and down_proj
  bool head_norms = false;  // RMS norms of each head of q and k, before the rotation
  i64 window = 0;           // a query sees so many keys, itself included; 0: all
  i64 windowed_from = 0;    // in layers from this one on
  bool operator==(const LlamaOptions&) const = default;

  i64 window_of(i64 layer) const { return layer >= windowed_from ? window : 0; }

  template <class Self, class F>
  static void visit(Self& self, F&& f) {  // see named_options.h
    f("layers", self.layers);
    f("width", self.width);
    f("heads", self.heads);
    f("kv_heads", self.kv_heads);
    f("ff", self.ff);
    f("positions", self.positions);
  }
};
// ConfigError names the option that is not possible.
void check_options(const LlamaOptions&);
// How many parameters such a model has.
i64 parameter_count(const LlamaOptions&);
// The options of the model with this name, and what ModelOptions say otherwise. Where they say a
// width but no heads, heads keep their size, and ff is 8/3 of it, up to a multiple of 64; as many
// heads share keys. ConfigError for an unknown name.
LlamaOptions llama_options(const std::string& name, const ModelOptions&);

// Of each pair of a head's numbers, [head_size / 2]: radians that one position turns it, scaled.
std::vector<double> rope_frequencies(const LlamaOptions&);
// f32 [positions, head_size]: row p holds the cosines, then the sines, of p times each frequency.
// Computed in double, rounded once: never a parameter, never of 16 bits.
Tensor rope_table(const LlamaOptions&, i64 positions);

// Of begins i32 [B, T], on the host: the position of each id in its document, i32 [B, T].
Tensor positions_in(const Tensor& begins);

// Starts at normal(0, 0.02), projections back into the stream at 0.02/sqrt(2 layers), norms at 1,
// biases at 0.
class Llama : public LanguageNet {
 public:
  explicit Llama(const LlamaOptions&);
  const LlamaOptions& options() const { return options_; }
  // As nn::add_lora(), with layers of attention and of the MLP as targets.
  void adapt(const nn::LoraOptions&);
  const nn::LoraOptions* lora() const { return lora_.get(); }  // null: none
  i64 width() const override { return options_.width; }
  i64 vocabulary() const override { return options_.vocabulary; }
  i64 positions() const override { return options_.positions; }

  Tensor hidden(const Tensor& ids) override { return hidden(ids, {}); }
  // The same of texts that hold several documents: begins i32 [B, T], on the host, says where the
  // document of each id begins. Documents do not see each other, and their positions begin at 0.
  Tensor hidden(const Tensor& ids, const Tensor& begins);
  // The same with positions i32 [B, T] of the ids in their documents; both are where the ids are.
  Tensor hidden(const Tensor& ids, const Tensor& begins, const Tensor& positions);
  const Tensor& head() const override;

  // A layer with a window that is shorter than positions() keeps so many keys, in a ring.
  Cache cache(i64 batch) const override;
  i64 cache_numbers() const override;
  // ShapeError, too: more than one id behind others, where a layer keeps a ring.
  Tensor step(const Tensor& ids, Cache&) override;
  Tensor step(const Tensor& ids, const Cache&, const TextPositions&) override;

 private:
  class Attention;
  class Mlp;
  class Block;
  struct Place;
  template <class Attend>
  Tensor run(const Tensor& ids, const Attend&);
  // table_ and all_positions_ of at least so many positions.
  void prepare(i64 positions);
  void initialise();
  Block& block(std::size_t i) const;

  LlamaOptions options_;
  std::shared_ptr<const nn::LoraOptions> lora_;
  nn::Embedding& embed_tokens_;
  nn::Sequential& layers_;
  nn::RmsNorm& norm_;
  nn::Linear* lm_head_ = nullptr;  // null: tied
  Tensor table_, all_positions_;   // rope_table(); i32: 0, 1, 2 …; on the device of the weights
};

}  // namespace gossamer::models
