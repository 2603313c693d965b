// The CPU's backend for the life of an object.
#pragma once

#include <string>

#include "gossamer/core/backend.h"
#include "gossamer/core/compute.h"

namespace gossamer {

// "cuda_emulated" computes every op as on a GPU.
struct UseBackend {
  std::string before = backend(Device::cpu()).name();
  explicit UseBackend(const std::string& name) { use_cpu_backend(name); }
  ~UseBackend() { use_cpu_backend(before); }
  UseBackend(const UseBackend&) = delete;
  UseBackend& operator=(const UseBackend&) = delete;
};

}  // namespace gossamer
