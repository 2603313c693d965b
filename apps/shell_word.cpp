// See shell_word.h.
#include "gossamer/apps/shell_word.h"

#include <cctype>
#include <string_view>

namespace gossamer::apps {

std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char ch) {
    return std::isalnum(ch) ||
           std::string_view("_-+=./,:@%").find(static_cast<char>(ch)) != std::string_view::npos;
  };
  bool quoted = text.empty();
  std::string out = "'";
  for (const char ch : text) {
    quoted |= !plain(static_cast<unsigned char>(ch));
    out += ch == '\'' ? std::string("'\\''") : std::string(1, ch);
  }
  return quoted ? out + "'" : text;
}

}  // namespace gossamer::apps
