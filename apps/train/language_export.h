// Language models with their tokenizers in the formats of others: for `gossamer export` and the C
// API.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gossamer/apps/train/language_source.h"
#include "gossamer/models/gguf.h"
#include "gossamer/models/language_file.h"

namespace gossamer::apps {

// Of a folder of Hugging Face: f32, bf16 or f16. ConfigError names the option that says it.
DType folder_type(const std::string& option, const std::string& name);

// A folder that Hugging Face's library reads. m computes in f32, on the CPU, and so below.
// ConfigError: the folder is there, and not empty. IoError.
void export_folder(const std::filesystem::path&, const LanguageModel& m, const ModelSource&,
                   const models::LanguageFileOptions&);
// The bytes of a GGUF file. name: of the model, for people. notes: what llama.cpp does otherwise.
// ConfigError: such a file can't say what the model or its tokenizer is.
std::string gguf_of(const LanguageModel& m, const std::string& name, models::GgufType,
                    std::vector<std::string>& notes);
// The bytes of an ONNX file: models/onnx_language.h.
std::string onnx_of(const LanguageModel& m);

}  // namespace gossamer::apps
