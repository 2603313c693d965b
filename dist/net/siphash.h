// SipHash-2-4 with a key and a result of 128 bits (Aumasson and Bernstein, INDOCRYPT 2012): a
// message authentication code for short messages. Without the key nobody can make the code of a
// message it has not seen one for. Not for passwords, not for encryption.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace gossamer::dist {

using SipKey = std::array<std::uint8_t, 16>;
using SipCode = std::array<std::uint8_t, 16>;
SipCode siphash(const SipKey&, std::span<const std::uint8_t>);

}  // namespace gossamer::dist
