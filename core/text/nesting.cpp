// See nesting.h. Both results are right for the part of a text that is valid, and a parser builds
// nothing of the rest.
#include "gossamer/core/text/nesting.h"

#include <algorithm>

namespace gossamer {
namespace {

// The position after the string that begins with the quote at `from`.
std::size_t behind_string(std::string_view text, std::size_t from, std::string_view quote,
                          bool escapes) {
  for (std::size_t at = from + quote.size(); at < text.size(); ++at) {
    if (escapes && text[at] == '\\')
      ++at;
    else if (text.substr(at).starts_with(quote))
      return at + quote.size();
  }
  return text.size();
}

}  // namespace

int json_depth(std::string_view json) {
  int depth = 0, deepest = 0;
  for (std::size_t at = 0; at < json.size();) {
    const char c = json[at];
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
    at = c == '"' ? behind_string(json, at, "\"", true) : at + 1;
  }
  return deepest;
}

int toml_names(std::string_view toml) {
  int names = 1, most = 1;
  for (std::size_t at = 0; at < toml.size();) {
    const char c = toml[at];
    if (c == '"' || c == '\'') {
      const std::string_view three = toml.substr(at, 3);
      const bool lines = three == "\"\"\"" || three == "'''";
      at = behind_string(toml, at, lines ? three : three.substr(0, 1), c == '"');
    } else if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
    } else {
      if (c == '.')
        most = std::max(most, ++names);
      else if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos)
        names = 1;
      ++at;
    }
  }
  return most;
}

}  // namespace gossamer
