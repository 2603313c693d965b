// UTF-8, checked: no overlong forms, no surrogates, nothing above U+10FFFF.
// Threads: any.
#pragma once

#include <cstddef>
#include <string_view>

namespace gossamer {

// Bytes of the longest valid beginning. It ends at a whole character.
std::size_t valid_utf8(std::string_view text);
// Bytes of the first character: 1 … 4; 0: the text is empty or begins with no valid one.
std::size_t utf8_length(std::string_view text);

}  // namespace gossamer
