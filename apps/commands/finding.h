// What `gossamer doctor` found: a fact about this machine or build, a verdict, and what to do.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/cuda.h"
#include "gossamer/core/device.h"

namespace gossamer::apps {

enum class Verdict { ok, note, problem };
struct Finding {
  Verdict verdict;
  std::string subject, text, fix;
};

// doctor_gpu.cpp: the driver, the GPUs, the vendor's libraries, shared memory
std::vector<Finding> gpu_findings();
// number: the driver's own version, "570.86.15"; "": unknown
Finding old_driver(const std::string& number, const cuda::Versions&);
// one small model forward and backward: this build works there at all
Finding first_step(const std::string& subject, Device);

}  // namespace gossamer::apps
