// See machine.h.
#include "gossamer/apps/machine.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <sched.h>
#include <unistd.h>

namespace gossamer::apps {

std::string first_line_after(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key))
      if (const std::size_t colon = line.find(':'); colon != std::string::npos)
        return line.substr(std::min(line.size(), line.find_first_not_of(" \t", colon + 1)));
  return "";
}

std::string processor() {
  const std::string name = first_line_after("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown" : name;
}

double memory_gib(const std::string& which) {
  return std::atof(first_line_after("/proc/meminfo", which).c_str()) / 1048576;
}

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::int64_t peak_resident_bytes() {
  return 1024 * std::atoll(first_line_after("/proc/self/status", "VmHWM").c_str());
}

}  // namespace gossamer::apps
