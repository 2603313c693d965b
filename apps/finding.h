// What `gossamer doctor` found: a fact about this machine or build, a verdict, and what to do.
#pragma once

#include <string>
#include <vector>

namespace gossamer::apps {

enum class Verdict { ok, note, problem };
struct Finding {
  Verdict verdict;
  std::string subject, text, fix;
};

std::vector<Finding> gpu_findings();     // doctor_gpu.cpp: the GPUs, the vendor's libraries, shared memory

}  // namespace gossamer::apps
