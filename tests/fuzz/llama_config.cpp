// Fuzz target of config.json, of an adapter's and of an index of shards: any text gives options of
// a model or of an adapter that can be written and are read back as they were, or an IoError; and
// files in the same folder, or an IoError.
//
// sources: llama_config lora_config shard_index
// sources: nesting printable spelling utf8 files file_names hash xxh3 core/cancel
// sources: safetensors safetensors_write core/tensor shape memory parallel autograd op_update
// sources: op_copy flat cuda_none op_blocks input_file free_memory cores least_cpu
#include <cstdint>
#include <cstdlib>
#include <string>

#include "gossamer/core/error.h"
#include "gossamer/models/llama_file.h"
#include "gossamer/models/lora_file.h"
#include "gossamer/nn/weights.h"

using namespace gossamer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const models::LlamaOptions options = models::read_llama_config(text, "config.json");
    try {
      const std::string again = models::llama_config(options, -1);
      if (models::read_llama_config(again, "config.json") != options) std::abort();
    } catch (const ConfigError&) {
    }
  } catch (const IoError&) {
  }
  try {
    const models::AdapterConfig adapter = models::read_adapter_config(text, "adapter_config.json");
    const std::string again = models::adapter_config(adapter.options, adapter.base);
    const auto read = models::read_adapter_config(again, "adapter_config.json");
    if (read.options != adapter.options || read.base != adapter.base) std::abort();
  } catch (const IoError&) {
  }
  try {
    for (const auto& [name, tensors] : nn::parse_shard_index(text, "index.json"))
      if (name.empty() || name.find('/') != name.npos || tensors.empty()) std::abort();
  } catch (const IoError&) {
  }
  return 0;
}
