// A language model as `bench step` and `tape` take it: by its sizes.
#pragma once

#include <string>

#include "gossamer/models/language_file.h"

namespace gossamer::apps {

// Whether it begins with the name of a family and a colon.
bool is_language_text(const std::string& text);
// gpt2:LAYERSxWIDTH:LENGTH:VOCABULARY, with heads that are 64 wide, or llama:… of which two heads
// share one of keys. ConfigError begins with `where`.
models::LanguageOptions language_of_text(const std::string& where, const std::string& text);

}  // namespace gossamer::apps
