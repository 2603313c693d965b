// One check of `gossamer doctor`: a fact about this machine or build, a verdict, and what to do.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/cuda.h"
#include "gossamer/core/device.h"

namespace gossamer::apps {

enum class Verdict { ok, note, problem };
struct Check {
  Verdict verdict;
  std::string subject, text, fix;
};

// The driver, the GPUs, the vendor's libraries, shared memory (doctor_gpu.cpp).
std::vector<Check> gpu_checks();
// The driver is older than the CUDA version of this build. number: its version, such as
// "570.86.15", or "" if unknown.
Check old_driver(const std::string& number, const cuda::Versions&);
// One training step of a small model: whether this build works on the device at all (doctor.cpp).
Check first_step(const std::string& subject, Device);

}  // namespace gossamer::apps
