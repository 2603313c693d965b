// One pass over the pattern, a character at a time; what is not known is refused.
#include "gossamer/data/text/steps/pattern_text.h"

#include <charconv>
#include <cstdint>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/text/steps/character_classes.h"

namespace gossamer::data {
namespace {

constexpr std::size_t kLongestPattern = 4096;

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_punctuation(char c) {
  return c > ' ' && c < 0x7F && !(c >= '0' && c <= '9') && !((c | 32) >= 'a' && (c | 32) <= 'z');
}

class Rewriting {
 public:
  Rewriting(std::string_view pattern, bool young, const std::string& place)
      : in_(pattern), young_(young), place_(place) {
    if (in_.size() > kLongestPattern) refuse("is longer than 4096 bytes");
    if (valid_utf8(in_) != in_.size()) refuse("is no UTF-8");
    if (in_.find('\0') != std::string_view::npos) refuse("has a zero byte");
  }

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape();
      } else if (c == '[') {
        list();
      } else if (c == '(') {
        group();
        continue;  // nothing to repeat yet
      } else if (c == '|') {
        out_ += in_[at_++];
        continue;
      } else if (c == '^' || c == '$') {
        refuse("has ^ or $, which mean the ends of lines in some programs and of texts in others");
      } else if (c == '.') {
        out_ += R"([^\n])";
        ++at_;
      } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        refuse("repeats nothing, or twice");
      } else {
        const std::size_t length = utf8_length(in_.substr(at_));
        out_ += in_.substr(at_, length);
        at_ += length;
      }
      repetition();
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    fail<DataError>(code::not_understood, place_, ": the pattern \"",
                    printable(std::string(in_.substr(0, 200))), "\" ", why,
                    "; it is not supported");
  }
  bool ahead(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  // The class behind \p or \P, as its characters; `except`: all others.
  std::string property(bool& except) {
    const std::size_t end = in_.find('}', at_);
    if (!ahead("{") || end == std::string_view::npos) refuse("has \\p without a {class}");
    std::string_view name = in_.substr(at_ + 1, end - at_ - 1);
    if (name.starts_with('^')) {
      except = !except;
      name.remove_prefix(1);
    }
    at_ = end + 1;
    std::string characters = characters_of_class(name, young_);
    if (characters.empty())
      refuse("has the class \\p{" + printable(std::string(name)) + "}, which is not known");
    return characters;
  }

  // A character behind \x or \u.
  std::string number(char kind) {
    std::size_t from = at_, end = at_;
    const bool braces = kind == 'x' && ahead("{");
    if (braces) from = ++end;
    const std::size_t most = braces ? 6 : kind == 'x' ? 2 : 4;
    while (end < in_.size() && end - from < most && is_hex(in_[end])) ++end;
    std::uint32_t value = 0;
    std::from_chars(in_.data() + from, in_.data() + end, value, 16);
    const bool whole =
        end > from && (braces ? end < in_.size() && in_[end] == '}' : end - from == most);
    if (!whole || value == 0 || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000) ||
        (kind == 'x' && !braces && value >= 0x80))
      refuse("has a number of a character that cannot be read");
    const std::string digits(in_.substr(from, end - from));
    at_ = end + (braces ? 1 : 0);
    return "\\x{" + digits + "}";
  }

  // What stands for one character behind a backslash; empty: it is another escape.
  std::string plain_escape() {
    const char c = in_[at_];
    if (c == 'r' || c == 'n' || c == 't' || c == 'f') return std::string("\\") + in_[at_++];
    if (c == 'v') return ++at_, R"(\x{0B})";
    if (c == 'x' || c == 'u') return ++at_, number(c);
    if (is_punctuation(c)) return std::string("\\") + in_[at_++];
    return "";
  }

  // Behind a backslash: a class, as what belongs in a list; `except`: all others.
  std::string class_escape(bool& except) {
    const char c = in_[at_++];
    except = c == 'S' || c == 'D' || c == 'P';
    if (c == 's' || c == 'S') return kSpaces;
    if (c == 'd' || c == 'D') return characters_of_class("Nd", young_);
    if (c == 'p' || c == 'P') return property(except);
    refuse(std::string("has \\") + printable(std::string(1, c)));
  }

  void skip_backslash() {
    if (++at_ == in_.size()) refuse("ends with a backslash");
  }

  void escape() {
    skip_backslash();
    std::string text = plain_escape();
    if (text.empty()) {
      bool except = false;
      const std::string characters = class_escape(except);
      text = (except ? "[^" : "[") + characters + "]";
    }
    out_ += text;
  }

  void list() {
    out_ += in_[at_++];
    if (ahead("^")) out_ += in_[at_++];
    if (ahead("]")) refuse("has an empty list of characters");
    while (!ahead("]")) {
      if (at_ == in_.size()) refuse("has a list of characters without its end");
      if (ahead("[") || ahead("&&")) refuse("has a list of characters in another");
      if (in_[at_] != '\\') {
        out_ += in_[at_++];
        continue;
      }
      skip_backslash();
      std::string text = plain_escape();
      if (text.empty()) {
        bool except = false;
        const bool spaces = in_[at_] == 'S';
        text = class_escape(except);
        if (except && !spaces) refuse("has all characters but those of a class in a list");
        if (except) text = kNoSpaces;
      }
      out_ += text;
    }
    out_ += in_[at_++];
  }

  void group() {
    ++at_;
    if (!ahead("?")) {
      if (ahead("*")) refuse("repeats nothing");
      out_ += "(?:";  // nothing refers to what it holds
      return;
    }
    for (const std::string_view known : {"?:", "?i:", "?=", "?!", "?<=", "?<!", "?>"})
      if (ahead(known)) {
        out_ += "(" + std::string(known);
        at_ += known.size();
        return;
      }
    refuse("has a group of an unknown kind");
  }

  // What repeats the last thing, if anything does.
  void repetition() {
    if (at_ == in_.size()) return;
    const char c = in_[at_];
    bool count = false;
    if (c == '{') {
      const std::size_t end = in_.find('}', at_);
      const std::string_view inside =
          in_.substr(at_ + 1, end == std::string_view::npos ? 0 : end - at_ - 1);
      const std::size_t comma = inside.find(',');
      const auto is_number = [](std::string_view text) {
        return !text.empty() && text.size() <= 4 &&
               text.find_first_not_of("0123456789") == std::string_view::npos;
      };
      if (!is_number(inside.substr(0, comma)) ||
          (comma != std::string_view::npos && comma + 1 < inside.size() &&
           !is_number(inside.substr(comma + 1))))
        refuse("has a { that begins no {n}, {n,} or {n,m}");
      out_ += in_.substr(at_, end + 1 - at_);
      at_ = end + 1;
      count = true;
      if (comma == std::string_view::npos && ahead("?")) refuse("has {n}?");
    } else if (c == '*' || c == '+' || c == '?') {
      out_ += in_[at_++];
    } else {
      return;
    }
    if (count && ahead("+")) refuse("has {n,m}+, which repeats the repetition");
    if (ahead("?") || ahead("+")) out_ += in_[at_++];
    if (ahead("*") || ahead("+") || ahead("?") || ahead("{")) refuse("repeats a repetition");
  }

  std::string_view in_;
  bool young_;
  const std::string& place_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string characters_of_class(std::string_view name, bool young) {
  for (const YoungClass& each : kYoungClasses)
    if (name == each.name) return "\\p{" + std::string(name) + "}" + (young ? each.characters : "");
  return "";
}

std::string characters_of_words(bool young) {
  std::string out = R"(\p{Alphabetic}\p{Pc}\x{200C}\x{200D})";
  for (const char* name : {"L", "M", "Nd"}) out += characters_of_class(name, young);
  return out;
}

std::string pattern_for_pcre2(std::string_view pattern, bool young, const std::string& place) {
  return Rewriting(pattern, young, place).run();
}

}  // namespace gossamer::data
