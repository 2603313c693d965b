// HMAC-SHA-256 (RFC 2104, FIPS 180-4), by OpenSSL: without the key nobody can make the code of a
// message.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace gossamer::dist {

using Code = std::array<std::uint8_t, 32>;
Code hmac(std::span<const std::uint8_t> key, std::span<const std::uint8_t> message);

}  // namespace gossamer::dist
