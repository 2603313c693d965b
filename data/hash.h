// Checksums of data: core's XXH3-64 (packed shards, index files) and CRC-32C (TFRecord).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gossamer/core/io/xxh3.h"

namespace gossamer::data {

// Castagnoli; the nine bytes "123456789" give e3069283.
std::uint32_t crc32c(std::span<const std::byte>);
// A CRC as TFRecord stores it, because a CRC of data that contain CRCs is weak.
inline std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

}  // namespace gossamer::data
