// Weights that someone else saved, in any of the formats that can be read: safetensors, and torch's
// .pth and .pt. The bytes say which, not the name of the file.
// Threads: any.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer::nn {

struct Weights {
  std::string file;  // for messages
  // Layouts are torch's: a convolution is OIHW. Prefixes "module." and "_orig_mod." of names are
  // dropped, and "model." if all names have it.
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;  // of safetensors
  std::vector<std::string> notes;               // what the user should know, see core/torch_file.h
  const Tensor* find(const std::string& name) const;  // nullptr if missing
};
// IoError names the file and the defect.
Weights read_weights(const std::filesystem::path&);

}  // namespace gossamer::nn
