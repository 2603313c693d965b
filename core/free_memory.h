// How much memory the machine has left.
#pragma once

#include <cstddef>
#include <string>

namespace gossamer {

// Bytes of main memory and swap that this process may still take, by the machine and by the limit
// of its container (cgroup); the largest number if neither is known. root: the folder that holds
// proc/ and sys/.
std::size_t free_main_memory(const std::string& root = "");

}  // namespace gossamer
