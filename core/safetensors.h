// The safetensors file format (github.com/huggingface/safetensors): named tensors, read with every
// check of the format, written atomically (temporary file, fsync, rename, fsync of the folder).
// Threads: any; who writes a path last wins.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/input_file.h"
#include "gossamer/core/tensor.h"

namespace gossamer {

struct SafeTensors {
  std::vector<NamedTensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  const Tensor* find(const std::string& name) const;  // nullptr if missing
};

// IoError names the file and the defect (header too large, not JSON, duplicate key, unknown type,
// hole, overlap, cut short …). F64 and integers that Gossamer has no type for are refused by name.
SafeTensors read_safetensors(const std::filesystem::path&);
SafeTensors read_safetensors(const InputFile&);
// Only the metadata, after the same checks: the file is whole if this returns, but no tensor is
// read.
std::map<std::string, std::string> read_safetensors_metadata(const std::filesystem::path&);
// copies
SafeTensors parse_safetensors(std::span<const std::byte> bytes, const std::string& name_for_errors);

// Replaces `path` in one step: readers see the old or the new file, never half of one. IoError
// names the path and errno's text.
void write_safetensors(const std::filesystem::path&, const std::vector<NamedTensor>&,
                       const std::map<std::string, std::string>& metadata = {});

// The same atomic, fsynced replacement for any bytes (config, summary, lists).
void write_file(const std::filesystem::path&, std::string_view bytes);

}  // namespace gossamer
