// How much memory the machine has left, and the error when that does not suffice.
// Threads: any.
#pragma once

#include <cstddef>
#include <string>

#include "gossamer/core/error.h"

namespace gossamer {

// What allocate() throws if there is not enough: less at a time may do.
struct OutOfMemory : DeviceError {
  using DeviceError::DeviceError;
};

// Bytes of main memory and swap that this process may still take, by the machine and by the limit
// of its container (cgroup); the largest number if neither is known. root: the folder that holds
// proc/ and sys/.
std::size_t free_main_memory(const std::string& root = "");

}  // namespace gossamer
