// The Unicode Standard, table 3-7: well-formed byte sequences.
#include "gossamer/core/text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace gossamer {

std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i) { return i < text.size() && (at(i) & 0xC0) == 0x80; };
  if (text.empty()) return 0;
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4 || !continues(1)) return 0;
  if (first < 0xE0) return 2;
  if (!continues(2)) return 0;
  const unsigned second = at(1);
  if (first < 0xF0)
    return (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ? 0 : 3;
  if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F) || !continues(3))
    return 0;
  return 4;
}

std::size_t valid_utf8(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080u;
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = kHighBits;
    if (text.size() - at >= 8) std::memcpy(&eight, text.data() + at, 8);
    if (!(eight & kHighBits)) {
      at += 8;
    } else if (const std::size_t length = utf8_length(text.substr(at, 4))) {
      at += length;
    } else {
      break;
    }
  }
  return at;
}

namespace {

// U+EF80 to U+EFFF.
bool stands_for_byte(std::string_view character) {
  return character.size() == 3 && character[0] == '\xEE' &&
         (character[1] == '\xBE' || character[1] == '\xBF');
}

}  // namespace

std::string to_text(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    const std::string_view character = bytes.substr(0, std::max<std::size_t>(length, 1));
    for (const char c : character)
      if (length == 0 || stands_for_byte(character))
        out += {'\xEE', static_cast<char>(0xBE | (c & 0x40) >> 6),
                static_cast<char>(0x80 | (c & 0x3F))};
      else
        out += c;
    bytes.remove_prefix(character.size());
  }
  return out;
}

std::string from_text(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();)
    if (stands_for_byte(text.substr(at, 3))) {
      out += static_cast<char>(0x80 | (text[at + 1] & 1) << 6 | (text[at + 2] & 0x3F));
      at += 3;
    } else {
      out += text[at++];
    }
  return out;
}

}  // namespace gossamer
