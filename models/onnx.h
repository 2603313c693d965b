// Models as ONNX files, for onnxruntime and others.
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/models/model_file.h"

namespace gossamer::models {

// Pictures that the graph takes, [N, channels, size, size], of three channels red first.
// normalized: f32, with mean and standard deviation as in training; unit: f32, 0 to 1; bytes: u8.
// The graph normalizes the last two itself.
enum class OnnxInput { normalized, unit, bytes };
// By its name. ConfigError names the option that says it.
OnnxInput onnx_input(const std::string& option, const std::string& name);

struct OnnxOptions {
  OnnxInput input = OnnxInput::normalized;
  // BatchNormalization as nodes; else it is folded into the convolutions before it
  bool keep_batch_norm = false;
};

// The bytes of a file: a graph from "images" to "logits" [N, classes], opset 13, with our header as
// its metadata. state: as files have it (nn::in_file_layout). ConfigError: it is of no ResNet;
// IoError: it is larger than ONNX files can be.
std::string onnx_bytes(const std::vector<NamedTensor>& state, const ModelHeader&,
                       const OnnxOptions&);

}  // namespace gossamer::models
