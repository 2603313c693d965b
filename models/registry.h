// Models by name. A new model is one row in registry.cpp.
// Threads: any.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/nn/module.h"

namespace gossamer::models {

struct ModelOptions {
  i64 classes = 0;                  // 0: the model's default
  bool zero_init_residual = false;  // see ResNetOptions
  std::uint64_t seed = 0;           // of the initial values
};
struct ModelInfo {
  std::string name;
  int image_size;  // side of the images that it is usually trained with
  i64 classes;     // default
  std::string about;
};
// ConfigError on an unknown name lists the known names and the nearest one.
std::unique_ptr<nn::Module> make(const std::string& name, const ModelOptions& = {});
const ModelInfo& info(const std::string& name);
const std::vector<ModelInfo>& list();

struct KnownState {
  std::string name;
  i64 classes;  // of its head; 0: it has none
};
// The model of the table whose state dict this is, by names and shapes (torch's layouts); nullopt:
// of none.
std::optional<KnownState> recognise(const std::vector<NamedTensor>& state);

}  // namespace gossamer::models
