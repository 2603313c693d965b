// Low-rank adaptation (LoRA; Hu et al. 2021, arXiv 2106.09685): a linear layer of frozen weight W
// [out, in] learns A [rank, in] and B [out, rank], and computes W x + s B (A x). B begins at zero,
// so the model begins as it was.
// Threads: as Module (module.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gossamer/nn/module.h"

namespace gossamer::nn {

struct LoraOptions {
  i64 rank = 0;  // 0: none
  double alpha = 16;
  bool rank_stabilised = false;  // s is alpha/sqrt(rank), not alpha/rank (arXiv 2312.03732)
  std::vector<std::string> targets{"q_proj", "v_proj"};  // names of layers
  float scale() const;                                   // s
  bool operator==(const LoraOptions&) const = default;
};

class Linear;
// Gives those of a model's linear layers that are targets A and B, as their children lora_A and
// lora_B, with values drawn from init_rng(), and freezes all other parameters of the model. Call it
// before a FlatParams holds them. ConfigError: a target is none of the layers' names.
using NamedLayers = std::vector<std::pair<std::string, Linear*>>;
void add_lora(Module& model, const NamedLayers&, const LoraOptions&);

// Parameters by name without A and B, which are added to the weights: W + s B A, in f32, on the
// CPU. IoError, which names `file`, of an A or B alone, or of other shapes.
std::vector<NamedTensor> merged_lora(std::vector<NamedTensor> parameters, float scale,
                                     const std::string& file);
// Whether some of these are A or B.
bool has_lora(const std::vector<NamedTensor>& parameters);

}  // namespace gossamer::nn
