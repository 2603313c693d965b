// A language model named by its sizes, for commands that need no trained one.
#pragma once

#include <string>

#include "gossamer/models/gpt2.h"

namespace gossamer::apps {

// gpt2:LAYERSxWIDTH:LENGTH:VOCABULARY, with heads that are 64 wide. ConfigError begins with
// `where`.
models::Gpt2Options gpt2_of_text(const std::string& where, const std::string& text);

}  // namespace gossamer::apps
