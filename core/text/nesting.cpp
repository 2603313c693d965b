// See nesting.h. Both are right for the part of a text that is valid, which is all that a parser
// builds something of.
#include "gossamer/core/text/nesting.h"

#include <algorithm>
#include <string>

namespace gossamer {
namespace {

// Behind the string that begins with the quote at `from`.
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

TomlFacts toml_facts(std::string_view toml) {
  TomlFacts facts;
  int names = 1;
  // A quote begins a text where a key or a value does. In a number, after `-` or in `1=`, it begins
  // none: there toml++ reads on, beyond `=`, `[`, `{` and `.`, to see what it will refuse.
  bool in_value = false, may_begin = true;
  std::string around;  // the lists and tables of the place
  for (std::size_t at = toml.starts_with("\xEF\xBB\xBF") ? 3 : 0; at < toml.size();) {
    const char c = toml[at];
    if (may_begin && (c == '"' || c == '\'')) {
      const std::string_view three = toml.substr(at, 3);
      const bool lines = three == "\"\"\"" || three == "'''";
      at = behind_string(toml, at, lines ? three : three.substr(0, 1), c == '"');
      may_begin = false;
      continue;
    }
    if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
      continue;
    }
    if (static_cast<unsigned char>(c) >= 0x80)
      facts.beyond_ascii = std::min(facts.beyond_ascii, at);
    if (c == '.')
      facts.names = std::max(facts.names, ++names);
    else if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos)
      names = 1;
    switch (c) {
      case ' ':
      case '\t':
        break;
      case '\n':
        in_value = in_value && !around.empty();
        may_begin = true;
        break;
      case ',':
        in_value = around.ends_with('[');
        may_begin = true;
        break;
      case '=':
        may_begin = !in_value;
        in_value = true;
        break;
      case '.':
        may_begin = !in_value;
        break;
      case '[':
      case '{':  // in front of a key it is the head of a table
        if (may_begin && in_value) around += c, in_value = c == '[';
        break;
      case ']':
      case '}':
        if (!around.empty()) around.pop_back(), in_value = true;
        may_begin = false;
        break;
      default:
        may_begin = false;
    }
    ++at;
  }
  return facts;
}

}  // namespace gossamer
