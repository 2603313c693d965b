// One check of `gossamer doctor`: a fact about this machine or build, a verdict, and what to do.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/device.h"

namespace gossamer::apps {

enum class Verdict { ok, note, problem };
struct Check {
  Verdict verdict;
  std::string subject, text, fix;
};

// The driver, the GPUs, the vendor's libraries, shared memory (doctor_gpu.cpp).
std::vector<Check> gpu_checks();
// One training step of a small model: whether this build works on the device at all (doctor.cpp).
Check first_step(const std::string& subject, Device);

}  // namespace gossamer::apps
