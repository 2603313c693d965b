// Language models as ONNX files, for onnxruntime and others.
// Threads: any.
#pragma once

#include <map>
#include <string>

#include "gossamer/models/language_net.h"

namespace gossamer::models {

// The bytes of a file: a graph from "ids", int64 [N, T] with T at most positions(), to "logits",
// f32 [N, T, vocabulary], opset 17. It keeps no keys and values: each call reads the whole text.
// Weights have the names and shapes that the model gives them. name: of the model; metadata: pairs
// that the file carries. ConfigError: it has no such model; IoError: it is larger than ONNX files
// can be.
std::string onnx_bytes(const LanguageNet&, const std::string& name,
                       const std::map<std::string, std::string>& metadata);

}  // namespace gossamer::models
