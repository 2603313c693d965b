// See lora_file.h.
#include "gossamer/models/lora_file.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/models/llama_file.h"
#include "gossamer/nn/checkpoint.h"

namespace fs = std::filesystem;

namespace gossamer::models {
namespace {

constexpr std::string_view kPrefix = "base_model.model.", kModel = "model.";

bool is_lora(const NamedTensor& t) { return t.name.find(".lora_") != t.name.npos; }

}  // namespace

nn::Weights read_adapter(const fs::path& folder) {
  nn::Weights out = nn::read_weights(folder / kAdapterWeights);
  for (NamedTensor& t : out.tensors) {
    check<IoError>(t.name.starts_with(kPrefix) && is_lora(t), out.file, ": holds ",
                   printable(t.name), "; wanted ", kPrefix, "….lora_A.weight and lora_B alone");
    t.name.erase(0, kPrefix.size());
    if (t.name.starts_with(kModel)) t.name.erase(0, kModel.size());
  }
  return out;
}

void load_adapter(const nn::Weights& adapter, Llama& model) {
  std::vector<NamedTensor> own = model.parameters();
  std::erase_if(own, [](const NamedTensor& p) { return !is_lora(p); });
  nn::load(adapter, own);
}

void merge_adapter(const fs::path& folder, nn::Weights& base) {
  const fs::path path = folder / kAdapterConfig;
  std::ifstream in(path);
  check<IoError>(in.good(), path.string(), ": cannot open this file");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const AdapterConfig config = read_adapter_config(text, path.string());
  nn::Weights adapter = read_adapter(folder);
  const bool prefixed = std::ranges::any_of(
      base.tensors, [](const NamedTensor& t) { return t.name.starts_with(kModel); });
  for (NamedTensor& t : adapter.tensors) {
    if (prefixed) t.name.insert(0, kModel);
    base.tensors.push_back(std::move(t));
  }
  base.tensors = nn::merged_lora(std::move(base.tensors), config.options.scale(), adapter.file);
}

void save_adapter(const fs::path& folder, const Llama& model, const FlatParams* params,
                  const std::string& base) {
  check<ConfigError>(model.lora() != nullptr, folder.string(), ": the model has no adapter");
  std::vector<NamedTensor> values = master_parameters(model, params);
  std::erase_if(values, [](const NamedTensor& p) { return !is_lora(p); });
  values = llama_in_file(values);
  for (NamedTensor& t : values) t.name.insert(0, kPrefix);
  fs::create_directories(folder);
  write_safetensors(folder / kAdapterWeights, values, {{"format", "pt"}});
  write_file(folder / kAdapterConfig, adapter_config(*model.lora(), base));
}

}  // namespace gossamer::models
