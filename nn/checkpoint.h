// Model files: safetensors with torchvision's names and layouts, so that weights can be exchanged
// with PyTorch. A convolution weight is OIHW in a file, as in torch, and [out, h, w, in] in memory.
// Only this file converts between the two.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "gossamer/core/flat.h"
#include "gossamer/nn/module.h"

namespace gossamer::nn {

// Writes parameters and buffers (atomically, fsynced). metadata: strings for the header ("model",
// "classes", "image_size" …). IoError.
void save(const std::filesystem::path&, const Module&,
          const std::map<std::string, std::string>& metadata = {});
// The same, with the parameters from `values`, a block of params' layout: params.values(), an
// average, a twin. A module whose layers read a bf16 compute copy must be saved this way; otherwise
// the file holds rounded weights.
void save(const std::filesystem::path&, const Module&, const FlatParams& params,
          const Tensor& values, const std::map<std::string, std::string>& metadata = {});
// Loads parameters and buffers and returns the metadata. IoError lists missing names, extra names
// and other shapes (the first three and the count); then the module is unchanged. Prefixes
// "module." and "_orig_mod." are dropped, bf16 tensors in the file become f32.
std::map<std::string, std::string> load(const std::filesystem::path&, Module&);
// For a module that belongs to a FlatParams: loads into its values and refreshes the compute copy.
std::map<std::string, std::string> load(const std::filesystem::path&, Module&, FlatParams& params);
std::map<std::string, std::string> read_metadata(const std::filesystem::path&);

}  // namespace gossamer::nn
