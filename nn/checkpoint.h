// Model files: safetensors with torchvision's names and layouts, so weights move to and from
// PyTorch unchanged. In files a convolution weight is torch's OIHW; in memory it is [out, h, w,
// in]. The change is made here and only here.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "gossamer/core/flat.h"
#include "gossamer/nn/module.h"

namespace gossamer::nn {

// Writes parameters and buffers (atomic, fsynced). metadata: strings kept in the header ("model",
// "classes", "image_size" …).
void save(const std::filesystem::path&, const Module&,
          const std::map<std::string, std::string>& metadata = {});
// The same with the parameters of `values`, a block of params' layout: params.values(), an average,
// a twin. A module whose layers read a bf16 compute copy must be saved so, or its file holds
// rounded weights.
void save(const std::filesystem::path&, const Module&, const FlatParams& params,
          const Tensor& values, const std::map<std::string, std::string>& metadata = {});
// IoError: lists missing, extra and misshapen names (first three and the count). Prefixes "module."
// and "_orig_mod." are dropped. bf16 tensors in the file are widened. Nothing is changed unless all
// fits. Returns the metadata.
std::map<std::string, std::string> load(const std::filesystem::path&, Module&);
// Once the module belongs to a FlatParams: loads into its values and refreshes the compute copy.
std::map<std::string, std::string> load(const std::filesystem::path&, Module&, FlatParams& params);
std::map<std::string, std::string> read_metadata(const std::filesystem::path&);

}  // namespace gossamer::nn
