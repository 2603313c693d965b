// Threads: any.
#pragma once

#include <string_view>

namespace gossamer::data {

// What an error says, for the middle of another one: without the code in front (errors.h), which
// only the beginning of a sentence has.
inline std::string_view without_code(std::string_view what) {
  const std::size_t space = what.find(' ');
  return what.starts_with("E-DATA-") && space != what.npos ? what.substr(space + 1) : what;
}

}  // namespace gossamer::data
