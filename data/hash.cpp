// CRC-32C by the CPU's own instruction where there is one.
#include "gossamer/data/hash.h"

#include <array>
#include <cstring>

namespace gossamer::data {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

std::uint32_t by_table(std::uint32_t crc, std::span<const std::byte> bytes) {
  for (const std::byte b : bytes)
    crc = kTable[(crc ^ std::to_integer<std::uint32_t>(b)) & 255] ^ crc >> 8;
  return crc;
}

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] std::uint32_t by_instruction(std::uint32_t start,
                                                       std::span<const std::byte> bytes) {
  std::uint64_t crc = start;
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  return by_table(static_cast<std::uint32_t>(crc), bytes.subspan(at));
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("sse4.2");
  if (fast) return ~by_instruction(~0u, bytes);
#endif
  return ~by_table(~0u, bytes);
}

}  // namespace gossamer::data
