// The patterns are PCRE2's, compiled to machine code where they can be. Valid UTF-8 is found first,
// because PCRE2 would look for it again with every piece. A list of young characters makes the
// search slower by a third, so only text that may have some is searched with it.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "gossamer/data/text/split_words.h"

#include <algorithm>
#include <array>
#include <string>

#include <pcre2.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/text/character_classes.h"

namespace gossamer::data {
namespace {

std::string pattern(const std::string& young_letters, const std::string& young_numbers) {
  const std::string spaces = kSpaces, letters = R"(\p{L})" + young_letters,
                    numbers = R"(\p{N})" + young_numbers;
  return "'s|'t|'re|'ve|'m|'ll|'d| ?[" + letters + "]+| ?[" + numbers + "]+| ?[^" + spaces +
         letters + numbers + "]+|[" + spaces + "]+(?![^" + spaces + "])|[" + spaces + "]+";
}

[[noreturn]] void fail_pcre(const char* what, int code) {
  std::array<char, 256> text{};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  fail(what, ": PCRE2 says: ", text.data());
}

// Young characters have four bytes, or begin with one of these pairs of bytes.
bool may_have_young(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0xF0; }) ||
         text.find("\xE1\xB2") != std::string_view::npos ||
         text.find("\xEA\x9F") != std::string_view::npos;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

class WordSplitter::Pattern {
 public:
  explicit Pattern(const std::string& text) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, nullptr);
    if (!code_) fail_pcre("the pattern of words does not compile", error);
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // without it, the same is interpreted
  }
  ~Pattern() { pcre2_code_free(code_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  const pcre2_code* code() const { return code_; }

 private:
  pcre2_code* code_ = nullptr;
};

WordSplitter::WordSplitter()
    : common_(std::make_unique<Pattern>(pattern("", ""))),
      young_(std::make_unique<Pattern>(pattern(kYoungLetters, kYoungNumbers))) {}
WordSplitter::~WordSplitter() = default;

void WordSplitter::split(std::string_view text, FunctionRef<void(std::string_view)> piece) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  check(match != nullptr, "split words: out of memory");
  const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(match.get());
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, valid_utf8(text));
    const pcre2_code* const code = (may_have_young(valid) ? young_ : common_)->code();
    for (std::size_t at = 0; at < valid.size();) {
      const int got = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(valid.data()), valid.size(),
                                  at, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
      if (got < 0) fail_pcre("split words", got);
      piece(valid.substr(at, found[1] - at));
      at = found[1];
    }
    text.remove_prefix(valid.size());
    std::size_t wrong = 0;
    while (wrong < text.size() && utf8_length(text.substr(wrong, 4)) == 0) ++wrong;
    if (wrong) piece(text.substr(0, wrong));
    text.remove_prefix(wrong);
  }
}

std::size_t word_boundary(std::string_view text, std::size_t near) {
  for (std::size_t i = std::max<std::size_t>(near, 1); i + 1 < text.size(); ++i)
    if (text[i] == ' ' && is_letter(text[i - 1]) && is_letter(text[i + 1])) return i;
  return text.size();
}

}  // namespace gossamer::data
