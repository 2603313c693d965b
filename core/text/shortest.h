// The shortest text that reads back as the same number.
// Threads: any.
#pragma once

#include <charconv>
#include <concepts>
#include <string>

namespace gossamer {

template <std::floating_point T>
std::string shortest(T value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace gossamer
