// CPUs and priority of the loader's threads.
#pragma once

#include <string>
#include <vector>

namespace gossamer::data {

// "0-3,8": CPUs by number; "node:0" or "node:0,2": those of NUMA nodes. Sorted, each once.
// ConfigError says what is wrong.
std::vector<int> parse_cpus(const std::string& text);
// The calling thread runs on these CPUs from now on. ConfigError if they don't exist or this
// process may not use them.
void pin(const std::vector<int>& cpus);
// The calling thread gets the lowest priority.
void lower_priority();

}  // namespace gossamer::data
