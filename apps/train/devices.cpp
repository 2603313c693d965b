// See devices.h.
#include "gossamer/apps/train/devices.h"

#include <cstdlib>

#include "gossamer/apps/command_keys.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/device_names.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {

namespace {

CudaOptions cuda_options(const Config& c) {
  return {.tf32 = c.train.tf32,
          .plan_file = plan_file(c.train.plans),
          .deterministic = c.train.deterministic};
}

}  // namespace

void check_device_keys(const Config& c, bool gpu) {
  check<ConfigError>(
      c.train.cuda_graph != "on" || gpu,
      "train.cuda_graph=on needs a GPU, and this worker computes on the CPU; use auto");
  check<ConfigError>(
      !c.train.tf32 || gpu,
      "train.tf32=true needs a GPU, and this worker computes on the CPU; leave it out");
  check<ConfigError>(
      !gpu || c.train.deterministic || (c.run.record.empty() && c.run.replay.empty()),
      "run.record and run.replay need train.deterministic=true on a GPU, where the same gradient "
      "is computed with other bits otherwise; add it, or use train.device=cpu");
}

Device worker_device(const Config& c, const dist::LaunchInfo& place) {
  const Device device = device_of(c.train.device, place.local_rank);
  check_device_keys(c, !device.is_cpu());
  if (!device.is_cpu()) configure_cuda(cuda_options(c));
  return device;
}

Device command_device(Config& c) {
  if (!said_by_hand(c, "train.device")) c.train.device = "auto";
  if (!said_by_hand(c, "train.tf32")) c.train.tf32 = false;
  const Device device = device_of(c.train.device);
  check<ConfigError>(!c.train.tf32 || !device.is_cpu(),
                     "train.tf32=true needs a GPU, and this command computes on the CPU; leave it "
                     "out");
  c.train.device = device.is_cpu() ? "cpu" : "cuda:" + std::to_string(device.index);
  if (!device.is_cpu()) configure_cuda(cuda_options(c));
  return device;
}

DType compute_type(const std::string& name, bool on_gpu) {
  if (name == "auto") return on_gpu || cpu::has_bf16() ? DType::bf16 : DType::f32;
  check<ConfigError>(name == "f32" || name == "bf16" || name == "f16", "dtype ", name,
                     ": is none of f32, bf16, f16 and auto");
  return name == "bf16" ? DType::bf16 : name == "f16" ? DType::f16 : DType::f32;
}

void settle_cpu(Config& c) {
  try {
    if (c.train.isa != "auto") cpu::limit_cpu(c.train.isa);
  } catch (const ConfigError& e) {
    fail<ConfigError>("train.isa: ", e.what());
  }
  const bool on_gpu = c.train.device != "cpu" && cuda::device_count() > 0;
  if (c.train.dtype == "auto") c.train.dtype = name_of(compute_type("auto", on_gpu));
  if (!on_gpu &&
      (c.train.dtype == "f16" || (c.train.dtype == "bf16" && !cpu::products_have_bf16())))
    c.notes.push_back("train.dtype=" + c.train.dtype + ": this CPU has no instructions for " +
                      c.train.dtype + (c.train.isa == "auto" ? "" : " under train.isa") +
                      "; f32 is faster");
}

std::string plan_file(const std::string& setting) {
  if (setting == "none") return "";
  if (setting != "auto") return setting;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/')
    return std::string(cache) + "/gossamer/plans.json";
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return std::string(home) + "/.cache/gossamer/plans.json";
  return "";
}

}  // namespace gossamer::apps
