// The safetensors file format (github.com/huggingface/safetensors): named tensors, read with every
// check of the format, written atomically (temporary file, fsync, rename, fsync of the folder).
//
// Files of ours hold checksums: the metadata string "gossamer_xxh3" is, with spaces between, 16
// digits of XXH3-64 of all that follows these digits in the header, and then 16 for the bytes of
// each tensor in the order of their bytes. Every read checks what it reads. They count only if the
// header begins as we write it, `{ "__metadata__":{"gossamer_xxh3":"`, with a space that no other
// program puts there: one that copies our metadata into a file of its own makes no false promise.
// Threads: any; who writes a path last wins.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer {

class InputFile;  // input_file.h

// A tensor that was skipped. kind: its type as the format calls it ("BOOL", "I16",
// "torch.BoolStorage" …), or what else about it Gossamer lacks.
struct UnreadTensor {
  std::string name, kind;
};

struct SafeTensors {
  std::vector<NamedTensor> tensors;             // in the order of their bytes; those of F64 as f32
  std::map<std::string, std::string> metadata;  // without the checksums
  // skipped: of a type that Gossamer lacks, or of more dimensions than a Shape
  std::vector<UnreadTensor> unread;
  std::vector<std::string> notes;                     // what the user should know: what was rounded
  const Tensor* find(const std::string& name) const;  // nullptr if missing
};

// IoError names the file and the defect: header too large, not JSON, duplicate key, hole, overlap,
// cut short, another checksum than it was written with …
SafeTensors read_safetensors(const std::filesystem::path&);
SafeTensors read_safetensors(const InputFile&);
// Only the metadata. The header and the length of the file are checked, but no tensor is read.
std::map<std::string, std::string> read_safetensors_metadata(const std::filesystem::path&);
// Does all the checks of a read, and IoError if one fails; of the tensors' bytes if the file has
// checksums.
void check_safetensors(const std::filesystem::path&);
// The same of bytes in memory, which are copied.
SafeTensors parse_safetensors(std::span<const std::byte> bytes, const std::string& name_for_errors);

// The metadata as they stand in a header, each as `,"KEY":"VALUE"`. IoError, beginning with
// `where`: one is no UTF-8. A caller that writes a file after long work can check this before it.
std::string metadata_text(const std::map<std::string, std::string>& metadata,
                          const std::string& where);

// Replaces `path` in one step: readers see the old or the new file, never half of one. IoError
// names the path and errno's text.
void write_safetensors(const std::filesystem::path&, const std::vector<NamedTensor>&,
                       const std::map<std::string, std::string>& metadata = {});
// The bytes of that file. name: for errors.
std::string safetensors_bytes(const std::vector<NamedTensor>&,
                              const std::map<std::string, std::string>& metadata,
                              const std::string& name);

// The same atomic, fsynced replacement for any bytes (config, summary, lists).
void write_file(const std::filesystem::path&, std::string_view bytes);

}  // namespace gossamer
