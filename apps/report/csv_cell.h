// Cells of files of comma-separated values.
#pragma once

#include <string>

namespace gossamer::apps {

// A cell with this text: quoted as RFC 4180 says where that is needed. A table program takes a text
// that begins like a formula for one, and runs it; behind an apostrophe it is text.
std::string csv_cell(const std::string& text);

}  // namespace gossamer::apps
