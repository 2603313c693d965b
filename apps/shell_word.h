// A text as one word of a shell's command line.
#pragma once

#include <string>

namespace gossamer::apps {

std::string shell_word(const std::string& text);  // in single quotes where it needs them

}  // namespace gossamer::apps
