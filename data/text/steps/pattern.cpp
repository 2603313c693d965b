// The patterns are PCRE2's, compiled to machine code where they can be. A list of young characters
// makes the search slower by a third, so only text that may have some is searched with it.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "gossamer/data/text/steps/pattern.h"

#include <algorithm>
#include <array>

#include <pcre2.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/text/steps/character_classes.h"
#include "gossamer/data/text/steps/pattern_text.h"

namespace gossamer::data {
namespace {

// Steps of one search, which a pattern of words never needs for a word of megabytes, and memory.
constexpr std::uint32_t kMostSteps = 10'000'000, kMostKibibytes = 64 << 10;

std::string message_of(int code) {
  std::array<char, 256> text{};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  return text.data();
}

// Characters of Unicode 15 and 16 have four bytes, or begin with one of these pairs of bytes.
bool may_have_young(std::string_view text) {
  unsigned char highest = 0;
  for (const char c : text) highest = std::max(highest, static_cast<unsigned char>(c));
  if (highest < 0xE0) return false;
  if (highest >= 0xF0) return true;
  for (const std::string_view pair : {"\xE1\xB2", "\xEA\x9F", "\xE0\xA2", "\xE0\xB3", "\xE0\xBB",
                                      "\xE1\xAD", "\xE2\x90", "\xE2\xBF", "\xE3\x87"})
    if (text.find(pair) != std::string_view::npos) return true;
  return false;
}

// What a search needs, once for each thread.
struct Search {
  Search()
      : match(pcre2_match_data_create(1, nullptr), &pcre2_match_data_free),
        context(pcre2_match_context_create(nullptr), &pcre2_match_context_free),
        stack(pcre2_jit_stack_create(32 << 10, 1 << 20, nullptr), &pcre2_jit_stack_free) {
    check(match && context && stack, "patterns: out of memory");
    pcre2_set_match_limit(context.get(), kMostSteps);
    pcre2_set_heap_limit(context.get(), kMostKibibytes);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match;
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context;
  std::unique_ptr<pcre2_jit_stack, decltype(&pcre2_jit_stack_free)> stack;
};

struct Named {
  const char* name;
  std::string pattern;
};

const std::array<Named, 5>& table() {
  static const auto& all = *[] {
    const std::string contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
                      lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])",
                      upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])",
                      before = R"([^\r\n\p{L}\p{N}]?)", spaces = R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
    // what upper and lower letters, a number of digits, and what follows signs make of o200k
    const auto modern = [&](const std::string& behind, const std::string& digits) {
      return before + upper + "*" + lower + "+" + behind + "|" + before + upper + "+" + lower +
             "*" + behind + "|" + digits + R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" + spaces;
    };
    const auto classic = [&](const std::string& digits) {
      return contraction + "|" + before + R"(\p{L}+|)" + digits + R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|)" +
             spaces;
    };
    return new std::array<Named, 5>{
        {{"gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
         {"cl100k", classic(R"(\p{N}{1,3})")},
         {"qwen2", classic(R"(\p{N})")},
         {"o200k", modern(contraction + "?", R"(\p{N}{1,3})")},
         {"tekken", modern("", R"(\p{N})")}}};
  }();
  return all;
}

}  // namespace

class Pattern::Compiled {
 public:
  Compiled(const std::string& text, const std::string& place) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                          PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
    check<DataError>(code_ != nullptr, code::damaged, place, ": the pattern \"",
                     printable(text.substr(0, 200)), "\" does not compile: ", message_of(error));
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // without it, the same is interpreted
  }
  ~Compiled() { pcre2_code_free(code_); }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  const pcre2_code* code() const { return code_; }

 private:
  pcre2_code* code_ = nullptr;
};

Pattern::Pattern(const std::string& pattern, const std::string& place)
    : Pattern([&](bool young) { return pattern_for_pcre2(pattern, young, place); }, place) {}
Pattern::Pattern(FunctionRef<std::string(bool)> of_pcre2, const std::string& place)
    : place_(place),
      common_(std::make_unique<Compiled>(of_pcre2(false), place)),
      young_(std::make_unique<Compiled>(of_pcre2(true), place)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;

void Pattern::each(std::string_view text, FunctionRef<void(std::size_t, std::size_t)> match) const {
  if (text.empty()) return;
  thread_local const Search search;
  const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(search.match.get());
  const pcre2_code* const code = (may_have_young(text) ? young_ : common_)->code();
  std::size_t behind = std::string_view::npos;  // the end of the last match
  for (std::size_t at = 0; at <= text.size();) {
    const int got = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                PCRE2_NO_UTF_CHECK, search.match.get(), search.context.get());
    if (got == PCRE2_ERROR_NOMATCH) return;
    if (got < 0)
      fail<DataError>(place_,
                      ": the search for the pattern does not end in time: ", message_of(got));
    const std::size_t begin = found[0], end = found[1];
    if (begin == end && begin == behind) {
      at = begin + std::max<std::size_t>(1, utf8_length(text.substr(begin, 4)));
      continue;
    }
    match(begin, end);
    at = behind = end;
  }
}

const Pattern& word_character() {
  static const auto& pattern = *new Pattern(
      [](bool young) { return "[" + characters_of_words(young) + "]"; }, "characters of words");
  return pattern;
}

Pattern words_or_signs() {
  return {[](bool young) {
            const std::string word = characters_of_words(young);
            return "[" + word + "]+|[^" + word + kSpaces + "]+";
          },
          "words"};
}

const std::string& named_pattern(std::string_view name) {
  for (const Named& each : table())
    if (name == each.name) return each.pattern;
  fail<ConfigError>("there is no split \"", printable(std::string(name)), "\"; known are ",
                    names_of_patterns());
}

std::string names_of_patterns() {
  std::string out;
  for (const Named& each : table()) out += (out.empty() ? "" : ", ") + std::string(each.name);
  return out;
}

bool is_named_pattern(std::string_view pattern) {
  return std::ranges::any_of(table(), [&](const Named& each) { return each.pattern == pattern; });
}

}  // namespace gossamer::data
