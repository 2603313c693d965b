// Where the checksums stand in a safetensors header (safetensors.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gossamer::checksums {

constexpr std::string_view kKey = "gossamer_xxh3";
// A header that begins so is ours, and must go on as kMark does.
constexpr std::string_view kOurs = "{ \"__metadata__\":{";
constexpr std::string_view kMark = "{ \"__metadata__\":{\"gossamer_xxh3\":\"";
constexpr std::size_t kDigits = 16;
inline std::string digits(std::uint64_t sum) {
  std::string out(kDigits, '0');
  for (std::size_t d = kDigits; d-- > 0; sum >>= 4) out[d] = "0123456789abcdef"[sum & 15];
  return out;
}
// Bytes of a piece, which is hashed while a cache still holds it.
constexpr std::size_t kPiece = std::size_t{1} << 18;

}  // namespace gossamer::checksums
