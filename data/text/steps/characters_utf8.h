// Single characters of valid UTF-8.
// Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "gossamer/core/text/utf8.h"

namespace gossamer::data {

// Of one whole character.
inline char32_t code_point(std::string_view character) {
  const auto tail = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(character[i]) & 63);
  };
  const auto first = static_cast<char32_t>(static_cast<unsigned char>(character[0]));
  switch (character.size()) {
    case 1:
      return first;
    case 2:
      return (first & 31) << 6 | tail(1);
    case 3:
      return (first & 15) << 12 | tail(1) << 6 | tail(2);
    default:
      return (first & 7) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
  }
}

inline void append_utf8(char32_t c, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 63)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    tail(12), tail(6), tail(0);
  }
}

// The length of the last character of a text that is not empty.
inline std::size_t last_length(std::string_view text) {
  std::size_t length = 1;
  while (length < text.size() &&
         (static_cast<unsigned char>(text[text.size() - length]) & 0xC0) == 0x80)
    ++length;
  return length;
}

// White space of Unicode: the 25 characters of kSpaces (character_classes.h).
inline bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Bytes of white space in front of a text, and behind it.
inline std::size_t leading_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text.substr(at, 4));
    if (length == 0 || !is_space(code_point(text.substr(at, length)))) break;
    at += length;
  }
  return at;
}
inline std::size_t trailing_space(std::string_view text) {
  const std::size_t all = text.size();
  while (!text.empty()) {
    const std::size_t length = last_length(text);
    const std::string_view last = text.substr(text.size() - length);
    if (utf8_length(last) != length || !is_space(code_point(last))) break;
    text.remove_suffix(length);
  }
  return all - text.size();
}

}  // namespace gossamer::data
