// See device_names.h.
#include "gossamer/core/device_names.h"

#include <charconv>
#include <optional>

#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"

namespace gossamer {
namespace {

// N of "cuda:N"; none for the other names.
std::optional<int> index_of(const std::string& name) {
  if (name == "auto" || name == "cpu" || name == "cuda") return {};
  int index = 0;
  const char* const end = name.data() + name.size();
  const bool numbered = name.starts_with("cuda:") && name.size() > 5 &&
                        std::from_chars(name.data() + 5, end, index).ptr == end && index >= 0;
  check<ConfigError>(numbered, "device \"", name, "\" is unknown; use auto, cpu, cuda or cuda:N");
  return index;
}

}  // namespace

void check_device_name(const std::string& name) { index_of(name); }

Device device_of(const std::string& name, int place) {
  const std::optional<int> given = index_of(name);
  const int gpus = cuda::device_count();
  if (name == "cpu" || (name == "auto" && gpus == 0)) return Device::cpu();
  check<DeviceError>(gpus > 0, "device ", name, ": ", cuda::why_none());
  check<DeviceError>(!given || *given < gpus, "device ", name, ": this machine has ", gpus, " GPU",
                     gpus == 1 ? "" : "s", ", numbered from 0");
  return Device::cuda(given.value_or(place % gpus));
}

}  // namespace gossamer
