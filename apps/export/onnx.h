// Models as ONNX files, for onnxruntime and others.
#pragma once

#include <filesystem>

#include "gossamer/apps/train/picture_model.h"

namespace gossamer::apps {

// Pictures that the graph takes, [N, 3, size, size], RGB. normalized: f32, with mean and standard
// deviation as in training; unit: f32, 0 to 1; bytes: u8. The graph normalizes the last two itself.
enum class OnnxInput { normalized, unit, bytes };

struct OnnxOptions {
  OnnxInput input = OnnxInput::normalized;
  // BatchNormalization as nodes; else it is folded into the convolutions before it
  bool keep_batch_norm = false;
};

bool writes_onnx();  // whether this build can

// "images" -> "logits" [N, classes], opset 13. The metadata are those of our model files. IoError;
// ConfigError if this build cannot.
void write_onnx(const std::filesystem::path&, const LoadedModel&, const OnnxOptions&);

}  // namespace gossamer::apps
