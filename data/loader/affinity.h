// Where and how urgently the loader's threads run: lists of CPUs, NUMA nodes, priority.
#pragma once

#include <string>
#include <vector>

namespace gossamer::data {

// "0-3,8": CPUs by number; "node:0" or "node:0,2": those of NUMA nodes. Sorted, each once.
// ConfigError says what is wrong.
std::vector<int> parse_cpus(const std::string& text);
// The calling thread runs on these CPUs from now on. ConfigError if the system refuses (not there,
// or not for this process).
void pin(const std::vector<int>& cpus);
// The calling thread goes behind everything that computes.
void give_way();

}  // namespace gossamer::data
