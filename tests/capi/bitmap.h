// A picture for tests that link libgossamer.so alone.
#pragma once

#include <string>

namespace gossamer {

// 40 x 40 pixels of one colour
inline std::string bitmap() {
  std::string bytes("BM\xf6\x12\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x28\0\0\0\x28\0\0\0\x01\0\x18\0",
                    30);
  bytes += std::string(24, '\0');
  for (int i = 0; i < 1600; ++i) bytes += "\xf0\x20\x10";
  return bytes;
}

}  // namespace gossamer
