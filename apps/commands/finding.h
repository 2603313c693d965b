// What `gossamer doctor` found: a fact about this machine or build, a verdict, and what to do.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/device.h"

namespace gossamer::apps {

enum class Verdict { ok, note, problem };
struct Finding {
  Verdict verdict;
  std::string subject, text, fix;
};

// doctor_gpu.cpp: the driver, the GPUs, the vendor's libraries, shared memory
std::vector<Finding> gpu_findings();
// one small model forward and backward: this build works there at all
Finding first_step(const std::string& subject, Device);

}  // namespace gossamer::apps
