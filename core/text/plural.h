// Numbers of things in sentences for people.
// Threads: any.
#pragma once

#include <concepts>
#include <string>

namespace gossamer {

// "1 image", "2 images"; plural: of a noun that does not take an s.
template <std::integral N>
std::string counted(N n, const std::string& noun, const std::string& plural = "") {
  return std::to_string(n) + " " + (n == 1 ? noun : plural.empty() ? noun + "s" : plural);
}

}  // namespace gossamer
