// What the loader of a training run is told.
#pragma once

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/evaluate.h"
#include "gossamer/data/loader.h"
#include "gossamer/dist/net/launch.h"

namespace gossamer::apps {

// the workers deal one order; else each draws its own
bool shares_epochs(const Config&);
// For the worker at this place, computing on this device. ConfigError: an augmentation that makes
// no sense, or not with data.resize_on.
data::LoaderOptions loader_options(const Config&, const Pictures&, const dist::LaunchInfo&, Device);

}  // namespace gossamer::apps
