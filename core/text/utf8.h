// Checks UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF), and writes any bytes as
// UTF-8.
// Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gossamer {

// The length in bytes of the longest valid beginning, which ends with a whole character.
std::size_t valid_utf8(std::string_view text);
// The length in bytes of the first character, 1 … 4; 0: the text is empty or begins with no valid
// one.
std::size_t utf8_length(std::string_view text);

// Any bytes as UTF-8, so that from_text() gives them back: a byte that is no UTF-8, such as E9,
// becomes U+EFE9. (U+EF80 to U+EFFF are for private use; if the bytes hold one, it becomes three.)
std::string to_text(std::string_view bytes);
std::string from_text(std::string_view text);

}  // namespace gossamer
