// Valid UTF-8 is found first, because PCRE2 would look for it again with every piece.
#include "gossamer/data/text/split_words.h"

#include <algorithm>
#include <string>

#include "gossamer/core/text/utf8.h"

namespace gossamer::data {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

WordSplitter::WordSplitter(std::string_view name)
    : pattern_(named_pattern(name), "the split " + std::string(name)) {}

void WordSplitter::split(std::string_view text, FunctionRef<void(std::string_view)> piece) const {
  each_valid_part(
      text,
      [&](std::string_view valid) {
        pattern_.each(valid, [&](std::size_t begin, std::size_t end) {
          piece(valid.substr(begin, end - begin));
        });
      },
      piece);
}

void each_valid_part(std::string_view text, FunctionRef<void(std::string_view)> valid,
                     FunctionRef<void(std::string_view)> other) {
  while (!text.empty()) {
    const std::size_t good = valid_utf8(text);
    if (good) valid(text.substr(0, good));
    text.remove_prefix(good);
    std::size_t wrong = 0;
    while (wrong < text.size() && utf8_length(text.substr(wrong, 4)) == 0) ++wrong;
    if (wrong) other(text.substr(0, wrong));
    text.remove_prefix(wrong);
  }
}

std::size_t word_boundary(std::string_view text, std::size_t near) {
  for (std::size_t i = std::max<std::size_t>(near, 1); i + 1 < text.size(); ++i)
    if (text[i] == ' ' && is_letter(text[i - 1]) && is_letter(text[i + 1])) return i;
  return text.size();
}

}  // namespace gossamer::data
