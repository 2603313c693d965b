// Writing a model that is cut into several files; weights.h reads them.
// Threads: as write_safetensors().
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer::nn {

// Writes them as one file of safetensors. most_bytes: if they are more, as several files of about
// so many bytes, NAME-00001-of-0000N.safetensors, with NAME.safetensors.index.json in place of
// NAME.safetensors, as Hugging Face has them; 0: never. IoError.
void write_shards(const std::filesystem::path&, std::vector<NamedTensor>,
                  const std::map<std::string, std::string>& metadata, i64 most_bytes);

}  // namespace gossamer::nn
