// Which device a command computes on, and where that device's measured plans are kept.
#pragma once

#include <string>

#include "gossamer/core/device.h"

namespace gossamer::apps {

// cpu; cuda:N; cuda: the local_rank-th GPU, workers beyond the last begin again at the first; auto:
// cuda where there is a GPU, else cpu. ConfigError for another name; DeviceError that says what is
// missing for a GPU that is not there.
Device device_of(const std::string& name, int local_rank = 0);
void check_device_name(const std::string& name);  // the name only

// The file of measured convolution plans: a path; none: "" (each start measures); auto:
// gossamer/plans.json in the user's cache folder
// ($XDG_CACHE_HOME, or ~/.cache), "" without one. Entries are keyed by version of cuDNN, GPU, type,
// shape and operation.
std::string plan_file(const std::string& setting);

}  // namespace gossamer::apps
