// Text from outside, made fit for a message: names of files, of tensors, words of peers.
// Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gossamer {

// Control characters (also those above ASCII, U+0080 to U+009F) and bytes that are no UTF-8 become
// \xNN, so that nothing can steer a terminal or break a line; all else stays. Of a text of more
// than `most` bytes the beginning, and "…". Doing it twice is doing it once, so a name that was
// shown can be read again.
std::string printable(std::string_view, std::size_t most = std::string_view::npos);
// Whether printable() has written a byte into this text as \xNN.
bool has_escapes(std::string_view);

}  // namespace gossamer
