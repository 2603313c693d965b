// Model files: safetensors with torchvision's names and layouts, so that weights can be exchanged
// with PyTorch, whose own .pth files are read too. A convolution weight is OIHW in a file, as in
// torch, and [out, h, w, in] in memory. Only this file converts between the two.
// Threads: any, as long as nothing changes the module that is saved, and nobody else uses the one
// that is loaded.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/nn/module.h"
#include "gossamer/nn/weights.h"

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
// The tensors of that file.
std::vector<NamedTensor> tensors_of_file(const Module&, const FlatParams& params,
                                         const Tensor& values);
// Converts a module's state, or other tensors in the layout of memory, to that of files: on the
// CPU, f32, convolutions OIHW.
std::vector<NamedTensor> in_file_layout(std::vector<NamedTensor> state);
// Loads parameters and buffers and returns the metadata. IoError lists missing names, extra names
// and other shapes (the first three and the count); then the module is unchanged. Tensors of 16
// bits in the file become f32.
std::map<std::string, std::string> load(const std::filesystem::path&, Module&);
void load(const Weights&, Module&);
// The same for other tensors by name, in the layout of memory.
void load(const Weights&, const std::vector<NamedTensor>& state);
// For a module that belongs to a FlatParams: loads into its values and refreshes the compute copy.
std::map<std::string, std::string> load(const std::filesystem::path&, Module&, FlatParams& params);
void load(const Weights&, Module&, FlatParams& params);

// How the tensors of a file fit a module: their names. `misshapen` also says shapes and types.
struct Fit {
  std::vector<std::string> fitting, missing, extra, misshapen;
};
// Loads what fits and leaves the rest of the module as it is, to be trained from there. IoError if
// no parameter fits, or one is of a type that Gossamer lacks; then the module is unchanged.
Fit load_what_fits(const Weights&, Module&);
std::vector<std::string> names_of(const std::vector<NamedTensor>&);
std::string first_three(const std::vector<std::string>& names);  // "a, b, c, … (9 in all)"

// Reads the metadata without the tensors. IoError also if the file is cut short.
std::map<std::string, std::string> read_metadata(const std::filesystem::path&);

}  // namespace gossamer::nn
