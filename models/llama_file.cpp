// See llama_file.h.
#include "gossamer/models/llama_file.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/lora.h"

namespace gossamer::models {
namespace {

constexpr std::string_view kPrefix = "model.";
constexpr const char *kTable = "embed_tokens.weight", *kHead = "lm_head.weight";

bool equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

}  // namespace

bool is_llama(const nn::Weights& file) {
  const auto has = [&](const std::string& name) {
    const auto is = [&](const auto& t) { return t.name == name; };
    return std::ranges::any_of(file.tensors, is) || std::ranges::any_of(file.unread, is);
  };
  for (const std::string prefix : {"", "model."})
    if (has(prefix + kTable) && has(prefix + "layers.0.mlp.gate_proj.weight")) return true;
  return false;
}

nn::Weights llama_weights(nn::Weights file) {
  const auto plain = [](std::string& name) {
    if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  };
  const auto is_table = [](const auto& t) { return t.name.ends_with(".rotary_emb.inv_freq"); };
  std::erase_if(file.tensors, is_table);
  std::erase_if(file.unread, is_table);
  for (NamedTensor& t : file.tensors) plain(t.name);
  for (UnreadTensor& t : file.unread) plain(t.name);
  if (!nn::has_lora(file.tensors)) return file;
  const auto scale = file.metadata.find("lora_scale");
  check<IoError>(scale != file.metadata.end(), file.file,
                 ": has A and B of an adapter, and its header no lora_scale");
  char* end = nullptr;
  const float s = std::strtof(scale->second.c_str(), &end);
  check<IoError>(*end == 0 && std::isfinite(s) && !scale->second.empty(), file.file,
                 ": lora_scale in the header is ", printable(scale->second));
  file.tensors = nn::merged_lora(std::move(file.tensors), s, file.file);
  return file;
}

void check_llama_fits(const nn::Weights& file, const LlamaOptions& o) {
  file.check_read(kTable);
  const Tensor* table = file.find(kTable);
  check<IoError>(table != nullptr, file.file, ": has no ", kPrefix, kTable);
  check<IoError>(table->shape() == Shape{o.vocabulary, o.width}, file.file, ": ", kPrefix, kTable,
                 " is ", table->shape(), ", config.json says vocab_size ", o.vocabulary,
                 " and hidden_size ", o.width);
  const auto has = [&](i64 layer, const char* part) -> const Tensor* {
    return file.find("layers." + std::to_string(layer) + part);
  };
  const char *q = ".self_attn.q_proj.weight", *gate = ".mlp.gate_proj.weight";
  check<IoError>(has(o.layers - 1, q) && !has(o.layers, q), file.file, ": has not the ", o.layers,
                 " layers that num_hidden_layers of config.json says");
  check<IoError>(has(0, q)->shape() == Shape{o.heads * o.head_size, o.width}, file.file,
                 ": layers.0", q, " is ", has(0, q)->shape(), "; config.json says ", o.heads,
                 " heads of ", o.head_size);
  check<IoError>(has(0, gate) && has(0, gate)->shape() == Shape{o.ff, o.width}, file.file,
                 ": layers.0", gate, " is not [", o.ff, ", ", o.width,
                 "], as intermediate_size of config.json says");
}

nn::Weights llama_without_tied_head(nn::Weights file, const LlamaOptions& o) {
  const Tensor* head = file.find(kHead);
  if (!o.tied || !head) return file;
  const Tensor* table = file.find(kTable);
  check<IoError>(!table || equal(*head, *table), file.file, ": ", kHead, " differs from ", kTable,
                 "; tie_word_embeddings says that they are one");
  std::erase_if(file.tensors, [](const NamedTensor& t) { return t.name == kHead; });
  return file;
}

void load_llama(const nn::Weights& file, Llama& model) {
  nn::load(llama_without_tied_head(file, model.options()), model);
}

std::map<std::string, std::string> metadata_of(const std::string& name, const LlamaOptions& o) {
  return {{"task", "language"}, {"model", name}, {"config", llama_config(o, -1)}};
}

std::optional<LlamaOptions> llama_in_header(const std::map<std::string, std::string>& header,
                                            const std::string& file) {
  const auto config = header.find("config");
  if (config == header.end()) return std::nullopt;
  return read_llama_config(config->second, file + ": \"config\" in the header");
}

std::vector<NamedTensor> llama_in_file(const std::vector<NamedTensor>& parameters) {
  std::vector<NamedTensor> out;
  for (const NamedTensor& p : parameters)
    out.push_back({p.name == kHead ? p.name : std::string(kPrefix) + p.name,
                   p.tensor.detach().to(Device::cpu()).to(DType::f32)});
  return out;
}

std::vector<NamedTensor> llama_tensors(const Llama& model, const FlatParams* params) {
  std::vector<NamedTensor> values = master_parameters(model, params);
  if (model.lora()) values = nn::merged_lora(std::move(values), model.lora()->scale(), "the model");
  return llama_in_file(values);
}

}  // namespace gossamer::models
