// Adapters (nn/lora.h) as Hugging Face's PEFT has them: adapter_config.json, which says rank, alpha
// and targets, and adapter_model.safetensors with A and B.
// Errors: IoError names the file, and in adapter_config.json the key.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/models/llama.h"
#include "gossamer/nn/lora.h"
#include "gossamer/nn/weights.h"

namespace gossamer::models {

inline constexpr const char *kAdapterConfig = "adapter_config.json",
                            *kAdapterWeights = "adapter_model.safetensors";

struct AdapterConfig {
  nn::LoraOptions options;
  std::string base;  // base_model_name_or_path; empty: not said
};
// A key that changes what the adapter computes, in a way that is not built, is refused by its name:
// other kinds than LoRA, use_dora, bias, patterns of ranks, modules_to_save, lm_head as a target.
AdapterConfig read_adapter_config(std::string_view json, const std::string& file);
std::string adapter_config(const nn::LoraOptions&, const std::string& base);

// A and B of a folder, with the names of our modules ("layers.0.self_attn.q_proj.lora_A.weight").
nn::Weights read_adapter(const std::filesystem::path& folder);
// Sets A and B of a model that was adapted so. IoError lists missing and extra names.
void load_adapter(const nn::Weights&, Llama&);
// Adds the adapter in a folder to the weights of its model, with or without "model." in front.
void merge_adapter(const std::filesystem::path& folder, nn::Weights& base);
// Writes both files into the folder, from the model's tensors or from the values of params.
void save_adapter(const std::filesystem::path& folder, const Llama&, const FlatParams* params,
                  const std::string& base);

}  // namespace gossamer::models
