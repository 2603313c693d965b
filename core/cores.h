// How many CPUs there are for this process.
// Threads: any.
#pragma once

#include <string>

namespace gossamer {

struct Cores {
  int count = 1;      // at least 1
  int of = 1;         // CPUs of the machine
  std::string limit;  // what keeps the process from using all of them; "" if nothing does
};

// The CPUs of the machine, less those that the affinity of the calling thread leaves out, and at
// most the time that the control groups (v1 and v2: those of containers, Slurm, systemd) allow,
// rounded up. Files of the system are looked for below `root`.
Cores usable_cores(const std::string& root = "");

}  // namespace gossamer
