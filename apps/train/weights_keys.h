// The keys model.init_key and model.init_rename: which state dict of a file is the model, and what
// its layers are called there.
#pragma once

#include <filesystem>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/nn/weights.h"

namespace gossamer::apps {

// What the two keys say about the file of model.init. ConfigError.
nn::WeightsOptions weights_options(const Config&);
// The MODEL of a command, read as the two keys say. ConfigError, IoError.
ModelSource find_model(const std::filesystem::path&, const Config&);
// What a run starts with: model.init, or the checkpoint that it goes on from. ConfigError, IoError.
ModelSource find_initial_model(const Config&);

}  // namespace gossamer::apps
