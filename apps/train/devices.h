// Which device a command computes on, and where that device's measured plans are kept.
#pragma once

#include <string>

#include "gossamer/apps/config.h"
#include "gossamer/core/device.h"
#include "gossamer/dist/net/launch.h"

namespace gossamer::apps {

// "cpu"; "cuda:N"; "cuda": GPU number local_rank, counted around again if there are fewer; "auto":
// cuda if there is a GPU, else cpu. ConfigError for another name; DeviceError if the GPU is
// missing, with the reason.
Device device_of(const std::string& name, int local_rank = 0);
void check_device_name(const std::string& name);  // only the name

// train.device of this worker, configured as the keys for GPUs say. ConfigError: a key that this
// device cannot follow.
Device worker_device(const Config&, const dist::LaunchInfo&);

// The file of measured convolution plans. setting: a path; "none": no file, so each start measures;
// "auto": gossamer/plans.json in the user's cache folder ($XDG_CACHE_HOME or ~/.cache). Returns ""
// for no file. Entries are keyed by cuDNN version, GPU, type, shape and operation.
std::string plan_file(const std::string& setting);

}  // namespace gossamer::apps
