// Reads weights in any of the known formats: safetensors, and torch's .pth, .pt and .bin, of which
// the bytes decide, not the name of the file; and the index of several such files.
// Threads: any.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/tensor.h"

namespace gossamer::nn {

struct Weights {
  std::string file;  // for messages
  // Layouts are torch's: a convolution is OIHW. Prefixes "module." and "_orig_mod." of names are
  // dropped, and "model." if all names have it.
  std::vector<NamedTensor> tensors;
  std::vector<UnreadTensor> unread = {};        // of types that Gossamer lacks; named as `tensors`
  std::map<std::string, std::string> metadata;  // of safetensors
  // what the user should know: what was skipped or rounded, which of several state dicts was taken
  std::vector<std::string> notes;
  const Tensor* find(const std::string& name) const;  // nullptr if missing
  // IoError: the file has it, but it was not read.
  void check_read(const std::string& name) const;
};

struct WeightsOptions {
  std::string key;  // of a .pth: the state dict that is taken, see core/io/torch_file.h
  // "linear" -> "fc": what names begin with, up to a dot or their end; of several the longest.
  // "backbone" -> "": it is dropped with its dot
  std::map<std::string, std::string> rename;
};
// A path to NAME.index.json, as Hugging Face writes it, stands for all files that it lists, in the
// same folder; each tensor must be in its file and in no other. IoError names the file and the
// defect, or lists the tensors that are missing, and those that are not listed; or it is the state
// of a training (train/train_state.h).
Weights read_weights(const std::filesystem::path&, const WeightsOptions& = {});
// The same from memory. name: for messages.
Weights read_weights(std::span<const std::byte> bytes, const std::string& name,
                     const WeightsOptions& = {});
// IoError names a tensor with values that are not finite.
void check_finite(const Weights&);
// Reads only the metadata; a .pth has none. IoError.
std::map<std::string, std::string> read_weights_header(const std::filesystem::path&);
// The tensors of each file that the text of an index says. IoError, beginning with `file`: it is no
// index, or a name leads out of the folder.
std::map<std::string, std::vector<std::string>> parse_shard_index(const std::string& text,
                                                                  const std::string& file);
// As WeightsOptions::rename. IoError: an entry fits no name, or two tensors have one name
// afterwards.
void rename(Weights&, const std::map<std::string, std::string>&);

}  // namespace gossamer::nn
