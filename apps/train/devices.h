// Which device a command computes on, and where that device's measured plans are kept.
#pragma once

#include <string>

#include "gossamer/apps/config.h"
#include "gossamer/core/device.h"
#include "gossamer/dist/net/launch.h"

namespace gossamer::apps {

// train.device of this worker, configured as the keys for GPUs say. ConfigError: a key that this
// device cannot follow.
Device worker_device(const Config&, const dist::LaunchInfo&);

// ConfigError for a key of a training that this kind of device cannot follow.
void check_device_keys(const Config&, bool gpu);

// The device of a command that uses a model: train.device (as --device) if the command line says
// it, not a CONFIG.toml, which speaks of a training; else auto. Configured as the keys for GPUs
// say; train.device says it afterwards. Before settle_cpu(). ConfigError, DeviceError.
Device command_device(Config&);

// Holds the CPU's code to train.isa, and puts a type in the place of train.dtype=auto; a type that
// is slower than f32 on this CPU gets a line in config.notes. Before anything is computed.
// ConfigError names the instruction sets that this CPU has.
void settle_cpu(Config&);
// f32 | bf16 | f16 | auto, as train.dtype
DType compute_type(const std::string& name, bool on_gpu = false);

// The file of measured convolution plans. setting: a path; "none": no file, so each start measures;
// "auto": gossamer/plans.json in the user's cache folder ($XDG_CACHE_HOME or ~/.cache). Returns ""
// for no file. Entries are keyed by cuDNN version, GPU, type, shape and operation.
std::string plan_file(const std::string& setting);

}  // namespace gossamer::apps
