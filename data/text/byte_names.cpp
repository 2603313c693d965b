// All names are code points below U+0144: one or two bytes of UTF-8.
#include "gossamer/data/text/byte_names.h"

#include "gossamer/core/text/utf8.h"

namespace gossamer::data {
namespace {

bool is_own_name(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Names {
  Names() {
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const unsigned point = is_own_name(byte) ? byte : next++;
      bytes.at(point) = static_cast<int>(byte);
      if (point < 0x80)
        names[byte] = {static_cast<char>(point)};
      else
        names[byte] = {static_cast<char>(0xC0 | point >> 6),
                       static_cast<char>(0x80 | (point & 63))};
    }
  }
  std::array<std::string, 256> names;
  std::array<int, 0x144> bytes = [] {
    std::array<int, 0x144> none{};
    none.fill(-1);
    return none;
  }();
};

const Names& table() {
  static const auto& names = *new Names;
  return names;
}

}  // namespace

const std::array<std::string, 256>& byte_names() { return table().names; }

std::optional<std::string> from_byte_names(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const std::size_t length = utf8_length(token);
    if (length != 1 && length != 2) return std::nullopt;
    const auto first = static_cast<unsigned char>(token[0]);
    const unsigned point =
        length == 1 ? first : (first & 31u) << 6 | (static_cast<unsigned char>(token[1]) & 63u);
    if (point >= table().bytes.size() || table().bytes[point] < 0) return std::nullopt;
    bytes += static_cast<char>(table().bytes[point]);
    token.remove_prefix(length);
  }
  return bytes;
}

}  // namespace gossamer::data
