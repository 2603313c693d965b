// Bytes as text. Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace gossamer {

// Two small digits a byte.
inline std::string hexadecimal(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t b : bytes)
    for (const int half : {b >> 4, b & 15}) text += "0123456789abcdef"[half];
  return text;
}

}  // namespace gossamer
