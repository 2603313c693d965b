// Models by name. A new model is one row in registry.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/nn/module.h"

namespace gossamer::models {

// classes 0: the model's default
struct ModelOptions {
  i64 classes = 0;
  bool zero_init_residual = false;
  std::uint64_t seed = 0;
};
// image_size: what it is usually trained with
struct ModelInfo {
  std::string name;
  int image_size;
  i64 classes;
  std::string about;
};
// ConfigError on an unknown name: lists the known ones and the nearest.
std::unique_ptr<nn::Module> make(const std::string& name, const ModelOptions& = {});
const ModelInfo& info(const std::string& name);
const std::vector<ModelInfo>& list();

}  // namespace gossamer::models
