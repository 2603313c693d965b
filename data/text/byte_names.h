// How GPT-2's files write bytes: each as one printable character.
// Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gossamer::data {

// The characters of the 256 bytes: 33 … 126, 161 … 172 and 174 … 255 are their own code points, the
// others U+0100, U+0101 …
const std::array<std::string, 256>& byte_names();
// The bytes of a token; none: a character stands for no byte.
std::optional<std::string> from_byte_names(std::string_view token);

}  // namespace gossamer::data
