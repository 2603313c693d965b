// Files of torch.save (.pth, .pt): a zip archive with a pickle of the names and one entry for the
// bytes of each storage. Read without torch, and without running what the pickle asks for; written
// for torch.
// Threads: any; who writes a path last wins.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gossamer/core/input_file.h"
#include "gossamer/core/tensor.h"

namespace gossamer {

struct TorchFile {
  std::vector<NamedTensor> tensors;  // of the state dict, in its order; those of f64 as f32
  // what the user should know: which of several state dicts was taken, what was rounded
  std::vector<std::string> notes;
};

// By its first bytes, whatever its name is: a file of torch.save, of any version.
bool is_torch_file(const InputFile&);

// A state dict (name -> tensor), or a checkpoint that holds one as "model", "state_dict",
// "state_dict_ema" or "model_ema": the first of these. What is no tensor is left out. Storages may
// be shared, tensors strided. IoError names the file and the defect: damaged, compressed, written
// by torch before 1.6, TorchScript, a function or class in the pickle, a type that Gossamer lacks.
TorchFile read_torch_file(const InputFile&);

// Writes a state dict as torch.save does, so that torch.load(FILE, weights_only=True) reads it.
// Replaces `path` in one step. IoError: it cannot be written, or has 4 GiB or more.
void write_torch_file(const std::filesystem::path&, const std::vector<NamedTensor>&);

}  // namespace gossamer
