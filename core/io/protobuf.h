// Writes protocol buffers: a message is its fields, one behind the other, each a key (number << 3 |
// wire type) and its value. https://protobuf.dev/programming-guides/encoding
// Threads: any.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace gossamer::protobuf {

// The bytes of a number, the lowest first.
template <class T>
std::string little_endian(T value) {
  std::string out;
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}

// number: of the field, at least 1.
inline std::string key(int number, std::uint64_t wire_type) {
  return varint(static_cast<std::uint64_t>(number) << 3 | wire_type);
}
inline std::string field(int number, std::uint64_t value) { return key(number, 0) + varint(value); }
inline std::string field(int number, std::int64_t value) {  // int64, int32, enum
  return field(number, static_cast<std::uint64_t>(value));
}
inline std::string field(int number, double value) {
  return key(number, 1) + little_endian(std::bit_cast<std::uint64_t>(value));
}
inline std::string field(int number, float value) {
  return key(number, 5) + little_endian(std::bit_cast<std::uint32_t>(value));
}
// Texts, bytes and messages.
inline std::string field(int number, std::string_view bytes) {
  return (key(number, 2) + varint(bytes.size())).append(bytes);
}

}  // namespace gossamer::protobuf
