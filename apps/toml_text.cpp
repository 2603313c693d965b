// See toml_text.h.
#include "gossamer/apps/toml_text.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/nesting.h"
#include "gossamer/core/text/utf8.h"

namespace gossamer::apps {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;  // a configuration has some kilobytes
constexpr int kMostNames = 8;                // the keys of a configuration have two

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// A sign that TOML allows in texts and comments only, and that `text` has not: neither itself nor
// by its number, "\u007e". 0: it has them all.
char free_mark(std::string_view text) {
  const std::string small = lower_case(text);
  for (const char mark : std::string_view("~^`|!$%&*/;<>?@()"))
    if (small.find(mark) == small.npos && small.find(fmt::format("00{:02x}", mark)) == small.npos)
      return mark;
  return 0;
}

std::ptrdiff_t characters(std::string_view text) {
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// Changes the texts of a list or table, and of those in it.
template <class Change>
void change_texts(toml::node& node, const Change& change) {
  if (toml::table* table = node.as_table()) {
    for (auto&& [key, value] : *table) change_texts(value, change);
  } else if (toml::array* list = node.as_array()) {
    for (toml::node& item : *list) change_texts(item, change);
  } else if (toml::value<std::string>* text = node.as_string()) {
    **text = change(**text);
  }
}

}  // namespace

std::optional<std::string> TomlText::of_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text(kMostBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

TomlText::TomlText(const std::string& text, const std::string& file) : file_(file) {
  check<ConfigError>(text.size() <= kMostBytes, file, ": more than ", kMostBytes >> 20,
                     " MiB are no configuration");
  const std::string_view valid = std::string_view(text).substr(0, valid_utf8(text));
  check<ConfigError>(valid == text, file, ":", std::ranges::count(valid, '\n') + 1,
                     ": the line is no UTF-8");
  const int names = toml_names(text);
  check<ConfigError>(names <= kMostNames, file, ": a key has ", names,
                     " names; all keys are section.key, and `gossamer config` lists them");
  if (!std::ranges::all_of(text, is_ascii)) {
    mark_ = free_mark(text);
    check<ConfigError>(mark_, file, ": beside letters that are not ASCII, every sign of ASCII is ",
                       "in this file; leave one of ~ ^ ` | out");
  }
  const bool order_mark = text.starts_with("\xEF\xBB\xBF");
  for (const char c : std::string_view(text).substr(order_mark ? 3 : 0))
    ascii_ += is_ascii(c) ? std::string(1, c)
                          : fmt::format("{}{:02x}", mark_, static_cast<unsigned char>(c));
  try {
    table_ = toml::parse(ascii_, std::string_view(file));
  } catch (const toml::parse_error& e) {
    const std::string why = original(e.description());
    const bool is_letter = mark_ && (ascii_.substr(offset(e.source()), 1)[0] == mark_ ||
                                     why.find(mark_) != why.npos);  // "saw '~'"
    fail<ConfigError>(place(e.source()), ": ",
                      is_letter ? "a character that is not ASCII; text stands in quotes" : why);
  }
  if (mark_) change_texts(table_, [&](const std::string& ascii) { return original(ascii); });
}

std::string TomlText::original(std::string_view ascii) const {
  if (!mark_) return std::string(ascii);
  std::string text;
  for (std::size_t at = 0; at < ascii.size(); ++at) {
    unsigned byte = 0;
    const char* const digits = ascii.data() + at + 1;
    if (ascii[at] == mark_ && ascii.size() - at > 2 &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2)
      text += static_cast<char>(byte), at += 2;
    else
      text += ascii[at];
  }
  return text;
}

std::size_t TomlText::offset(const toml::source_region& region) const {
  std::size_t line = 0;
  for (toml::source_index i = 1; i < region.begin.line; ++i) line = ascii_.find('\n', line) + 1;
  return std::min(line + std::max<toml::source_index>(region.begin.column, 1) - 1, ascii_.size());
}

std::string TomlText::place(const toml::source_region& region) const {
  const std::string_view before = std::string_view(ascii_).substr(0, offset(region));
  const std::size_t line = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("{}:{}:{}", file_, region.begin.line,
                     characters(original(before.substr(line))) + 1);
}

}  // namespace gossamer::apps
