// Files of torch.save (.pth, .pt): a pickle of the names, and the bytes of each storage, in a zip
// archive or, before torch 1.6, one after the other. They are read without torch, and without
// running what the pickle asks for, and written for torch. Threads: any; who writes a path last
// wins.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gossamer/core/io/input_file.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/tensor.h"

namespace gossamer {

struct TorchFile {
  std::vector<NamedTensor> tensors;  // of the state dict, in its order; those of f64 as f32
  // of a type that Gossamer lacks, sparse, quantized, or of more dimensions than a Shape
  std::vector<UnreadTensor> unread;
  // what the user should know: which of several state dicts was taken, what was rounded
  std::vector<std::string> notes;
};

// Whether its first bytes are those of a file of torch.save, of any version. Its name does not
// count.
bool is_torch_file(const InputFile&);

// A state dict (name -> tensor), or one of those that a checkpoint holds: that called init_key
// ("state_dict_ema", "ema.module"), else the first of the usual names ("model", "state_dict",
// "model_state_dict", "net" …, averages last), else the only one. What is no tensor is left out.
// Storages may be shared, tensors strided. IoError names the file and the defect: damaged,
// compressed, TorchScript, a function or class in the pickle, no state dict of that name.
TorchFile read_torch_file(const InputFile&, const std::string& init_key = "");

// Writes a state dict as torch.save does, so that torch.load(FILE, weights_only=True) reads it.
// Replaces `path` in one step. IoError: it cannot be written, or has 4 GiB or more.
void write_torch_file(const std::filesystem::path&, const std::vector<NamedTensor>&);

}  // namespace gossamer
