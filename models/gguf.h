// Language models as GGUF files of version 3, which llama.cpp and its kin run. Keys and names of
// tensors are those that llama.cpp's converter writes
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). They are written only.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gossamer/models/language_file.h"

namespace gossamer::models {

// Of matrices. Vectors are f32 in every file. q8_0: of each 32 numbers the largest is 127 times an
// f16, and all are rounded to multiples of it; rows of other lengths are f16.
enum class GgufType { f32, f16, bf16, q8_0 };
// By its name. ConfigError names the option that says it.
GgufType gguf_type(const std::string& option, const std::string& name);

using GgufValue = std::variant<bool, std::uint32_t, float, std::string, std::vector<std::string>,
                               std::vector<std::int32_t>, std::vector<float>>;
using GgufKeys = std::vector<std::pair<std::string, GgufValue>>;

// The bytes of a file. name: of the model, for people. tokenizer: its keys, which follow those of
// the model. notes: what llama.cpp does otherwise, and for which texts. ConfigError: it has no such
// model; IoError: a weight is larger than f16 can be.
std::string gguf_bytes(const LanguageNet&, const std::string& name, GgufType,
                       const GgufKeys& tokenizer, std::vector<std::string>& notes);

}  // namespace gossamer::models
