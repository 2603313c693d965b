// See printable.h.
#include "gossamer/core/text/printable.h"

#include <algorithm>
#include <cctype>

#include "gossamer/core/text/utf8.h"

namespace gossamer {
namespace {

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at, 4)),
                      taken = std::max<std::size_t>(1, length);
    const std::string_view character = text.substr(at, taken);
    if (at + taken > most) return out + "…";
    at += taken;
    if (length > 0 && !is_control(character)) {
      out += character;
      continue;
    }
    for (const char c : character) {
      const auto byte = static_cast<unsigned char>(c);
      (out += "\\x") += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

bool has_escapes(std::string_view name) {
  const auto is_digit = [&](std::size_t at) {
    return at < name.size() && std::isxdigit(static_cast<unsigned char>(name[at]));
  };
  for (std::size_t at = 0; (at = name.find("\\x", at)) != std::string_view::npos; ++at)
    if (is_digit(at + 2) && is_digit(at + 3)) return true;
  return false;
}

}  // namespace gossamer
