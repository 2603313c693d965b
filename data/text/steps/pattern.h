// A regular expression of a tokenizer's file, searched by PCRE2.
// Threads: any, also for one Pattern.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "gossamer/core/parallel.h"

namespace gossamer::data {

class Pattern {
 public:
  // pattern: as tokenizer.json has it (pattern_text.h). DataError begins with `place`: it is none,
  // or not supported.
  Pattern(const std::string& pattern, const std::string& place);
  // of_pcre2(young): as PCRE2 reads it, for text without and with young characters.
  Pattern(FunctionRef<std::string(bool)> of_pcre2, const std::string& place);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  // Calls match(begin, end) for each match in a text of valid UTF-8, from left to right. They do
  // not overlap; an empty one is not behind another one. DataError: the search takes too long,
  // which only patterns do that try the same thing in many ways.
  void each(std::string_view text,
            FunctionRef<void(std::size_t begin, std::size_t end)> match) const;

 private:
  class Compiled;
  std::string place_;
  std::unique_ptr<Compiled> common_, young_;  // for text without, and with, young characters
};

// What Rust's regular expressions call a word (\w): a character of it; the longest run of them, or
// of others than white space.
const Pattern& word_character();
Pattern words_or_signs();

// The patterns of published tokenizers, by name: gpt2, cl100k (GPT-4, Llama 3), qwen2, o200k
// (GPT-4o), tekken (Mistral). Together the matches of each are the text. ConfigError: no such name.
const std::string& named_pattern(std::string_view name);
// "gpt2, cl100k, …"
std::string names_of_patterns();
// Whether this is one of them, or their like: word_boundary() (split_words.h) is right for it.
bool is_named_pattern(std::string_view pattern);

}  // namespace gossamer::data
