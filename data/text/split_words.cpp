// The pattern is PCRE2's, compiled to machine code where it can be. Valid UTF-8 is found first,
// because PCRE2 would look for it again with every piece.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "gossamer/data/text/split_words.h"

#include <algorithm>
#include <array>

#include <pcre2.h>

#include "gossamer/core/error.h"
#include "gossamer/core/utf8.h"

namespace gossamer::data {
namespace {

constexpr const char* kPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

[[noreturn]] void fail_pcre(const char* what, int code) {
  std::array<char, 256> text{};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  fail(what, ": PCRE2 says: ", text.data());
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

struct WordSplitter::Pattern {
  Pattern() {
    int error = 0;
    PCRE2_SIZE at = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, nullptr);
    if (!code) fail_pcre("the pattern of words does not compile", error);
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it, the same is interpreted
  }
  ~Pattern() { pcre2_code_free(code); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  pcre2_code* code = nullptr;
};

WordSplitter::WordSplitter() : pattern_(std::make_unique<Pattern>()) {}
WordSplitter::~WordSplitter() = default;

void WordSplitter::split(std::string_view text, FunctionRef<void(std::string_view)> piece) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  check(match != nullptr, "split words: out of memory");
  const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(match.get());
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, valid_utf8(text));
    for (std::size_t at = 0; at < valid.size();) {
      const int got = pcre2_match(pattern_->code, reinterpret_cast<PCRE2_SPTR>(valid.data()),
                                  valid.size(), at, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
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
