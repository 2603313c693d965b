// Numbers as short texts.
// Threads: any.
#pragma once

#include <charconv>
#include <concepts>
#include <string>

namespace gossamer {

// The shortest text that reads back as the same number.
template <std::floating_point T>
std::string shortest(T value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// At most six digits, as printf's %g.
template <std::floating_point T>
std::string six_digits(T value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, 6).ptr};
}

}  // namespace gossamer
