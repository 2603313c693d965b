// Unicode's forms are those of tokenizers 0.23, which has Unicode 9.0's: characters that utf8proc
// knows and Unicode 9.0 does not are left as they are, and divide the text as letters do.
#include "gossamer/data/text/steps/normalize.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <utf8proc.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/text/steps/characters_utf8.h"
#include "gossamer/data/text/steps/fields.h"
#include "gossamer/data/text/steps/pattern.h"

namespace gossamer::data {
namespace {

struct Range {
  char32_t first, last;
};

// Marks, and characters with a decomposition, of Unicode 10 to 16.
constexpr Range kAfterUnicode9[] = {
    {0x07FD, 0x07FD},   {0x0897, 0x089F},   {0x08CA, 0x08D3},   {0x09FE, 0x09FE},
    {0x0C3C, 0x0C3C},   {0x0CF3, 0x0CF3},   {0x0D3B, 0x0D3C},   {0x0EBA, 0x0EBA},
    {0x0ECE, 0x0ECE},   {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},
    {0x105C9, 0x105E4}, {0x10781, 0x107BA}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D},
    {0x10EAB, 0x10EAC}, {0x10EFC, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x11380, 0x113E2},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11938, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D45}, {0x11D97, 0x11D97}, {0x11F00, 0x11F5A}, {0x13440, 0x13455},
    {0x16100, 0x1612F}, {0x16D40, 0x16D6C}, {0x16FF0, 0x16FF1}, {0x1CCD6, 0x1CCF9},
    {0x1E030, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
    {0x1E5EE, 0x1E5EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

bool is_after_unicode9(char32_t c) {
  if (c < kAfterUnicode9[0].first) return false;
  const auto* const found = std::ranges::lower_bound(kAfterUnicode9, c, {}, &Range::last);
  return found != std::end(kAfterUnicode9) && c >= found->first;
}

// The form of a text without such characters.
void append_form(std::string_view text, utf8proc_option_t options, std::string& out) {
  if (text.empty()) return;
  check(text.size() < std::numeric_limits<utf8proc_ssize_t>::max() / 16, "normalize: a text of ",
        text.size(), " bytes");
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &made, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> hold(made, &std::free);
  check(size >= 0, "normalize: utf8proc says: ", utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
}

// least: no character below it changes, alone or behind another.
Normalizer unicode_form(int options, char32_t least) {
  return [options = static_cast<utf8proc_option_t>(options), least](std::string_view text) {
    std::string out;
    std::size_t begin = 0;
    bool changes = false;
    for (std::size_t at = 0; at < text.size();) {
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte < 0x80) {
        ++at;
        continue;
      }
      const std::size_t length = utf8_length(text.substr(at, 4));
      const char32_t c = code_point(text.substr(at, length));
      changes = changes || c >= least;
      if (is_after_unicode9(c)) {
        append_form(text.substr(begin, at - begin), options, out);
        out += text.substr(at, length);
        begin = at + length;
      }
      at += length;
    }
    if (!changes) return std::string(text);
    append_form(text.substr(begin), options, out);
    return out;
  };
}

// The small letters of Unicode 16 and 17, which utf8proc may lack: from a range of capitals, so
// many further; 0: none.
char32_t young_lower(char32_t c) {
  struct Capitals {
    char32_t first, last;
    int further;
  };
  constexpr Capitals kYoung[] = {{0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
                                 {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
                                 {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
                                 {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
                                 {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B}};
  for (const Capitals& each : kYoung)
    if (c >= each.first && c <= each.last)
      return static_cast<char32_t>(static_cast<int>(c) + each.further);
  return 0;
}

// Rust's, character by character, without a look at the end of the word.
std::string lower(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at, 4));
    const char32_t c = code_point(text.substr(at, length));
    at += length;
    if (c == 0x130)
      out += "i\xCC\x87";
    else if (const char32_t young = young_lower(c))
      append_utf8(young, out);
    else
      append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
  }
  return out;
}

Normalizer strip(bool left, bool right) {
  return [left, right](std::string_view text) {
    if (left) text.remove_prefix(leading_space(text));
    if (right) text.remove_suffix(trailing_space(text));
    return std::string(text);
  };
}

Normalizer prepend(std::string what) {
  return [what = std::move(what)](std::string_view text) {
    return text.empty() ? std::string() : what + std::string(text);
  };
}

Normalizer replace_text(std::string from, std::string to) {
  return [from = std::move(from), to = std::move(to)](std::string_view text) {
    std::string out;
    for (std::size_t at = 0;;) {
      const std::size_t found = text.find(from, at);
      out += text.substr(at, found == std::string_view::npos ? found : found - at);
      if (found == std::string_view::npos) return out;
      out += to;
      at = found + from.size();
    }
  };
}

Normalizer replace_matches(std::shared_ptr<const Pattern> pattern, std::string to) {
  return [pattern = std::move(pattern), to = std::move(to)](std::string_view text) {
    std::string out;
    std::size_t at = 0;
    pattern->each(text, [&](std::size_t begin, std::size_t end) {
      out += text.substr(at, begin - at);
      out += to;
      at = end;
    });
    out += text.substr(at);
    return out;
  };
}

Normalizer read_replace(const Fields& step) {
  step.know({"pattern", "content"});
  const Fields pattern = step.object("pattern");
  pattern.know({"String", "Regex"});
  std::string content = step.text("content");
  if (pattern.find("Regex"))
    return replace_matches(std::make_shared<const Pattern>(pattern.text("Regex"), pattern.place()),
                           std::move(content));
  std::string from = pattern.text("String");
  if (from.empty()) step.refuse("replaces a text of no characters");
  return replace_text(std::move(from), std::move(content));
}

}  // namespace

Normalizer read_normalizer(const Fields& step) {
  const std::string type = step.type();
  const std::pair<const char*, Normalizer> forms[] = {
      {"NFC", unicode_form(UTF8PROC_COMPOSE | UTF8PROC_STABLE, 0x300)},
      {"NFD", unicode_form(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, 0x80)},
      {"NFKC", unicode_form(UTF8PROC_COMPOSE | UTF8PROC_STABLE | UTF8PROC_COMPAT, 0x80)},
      {"NFKD", unicode_form(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | UTF8PROC_COMPAT, 0x80)}};
  for (const auto& [name, form] : forms)
    if (type == name) return step.know({}), form;
  if (type == "Lowercase") return step.know({}), lower;
  if (type == "Strip") {
    step.know({"strip_left", "strip_right"});
    return strip(step.flag_or("strip_left", true), step.flag_or("strip_right", true));
  }
  if (type == "Prepend") return step.know({"prepend"}), prepend(step.text("prepend"));
  if (type == "Replace") return read_replace(step);
  if (type != "Sequence") step.refuse("is of the type " + type + ", which is not supported");
  step.know({"normalizers"});
  std::vector<Normalizer> all;
  for (const Fields& each : step.list("normalizers")) all.push_back(read_normalizer(each));
  if (all.size() == 1) return all.front();
  return [all = std::move(all)](std::string_view text) {
    std::string out(text);
    for (const Normalizer& each : all)
      if (each) out = each(out);
    return out;
  };
}

}  // namespace gossamer::data
