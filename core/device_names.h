// Devices by their names, as users write them.
// Threads: any.
#pragma once

#include <string>

#include "gossamer/core/device.h"

namespace gossamer {

// The device of a name: "cpu"; "cuda:N"; "cuda": GPU number `place`, counted around again if there
// are fewer; "auto": cuda if there is a GPU, else cpu. ConfigError for another name; DeviceError if
// the GPU is missing, with the reason.
Device device_of(const std::string& name, int place = 0);
void check_device_name(const std::string& name);  // only the name

}  // namespace gossamer
