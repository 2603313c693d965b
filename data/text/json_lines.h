// Files of JSON lines: each line is an object, and one of its fields is the text.
// Threads: any.
#pragma once

#include <string>

namespace gossamer::data {

// Whether a file of this name holds them: .jsonl, also with .gz or .zst behind, in upper or lower
// case.
bool is_json_lines(const std::string& path);

// The text in a field of a line; empty if it is null. DataError begins with `place`: the line is no
// JSON object, or the field is missing or no string.
std::string text_in_json(const std::string& line, const std::string& field,
                         const std::string& place);

}  // namespace gossamer::data
