// Rewrites a regular expression of a tokenizer's file, which is Oniguruma's in Ruby's syntax, for
// PCRE2 with UTF and UCP.
// Threads: any.
#pragma once

#include <string>
#include <string_view>

namespace gossamer::data {

// Classes become those of character_classes.h; young: with the characters that PCRE2 may lack.
// DataError begins with `place` and names what PCRE2 would understand otherwise, or what no
// published file uses: possessive {n,m}+, ^ and $, \h, \w, \b, POSIX classes, && and lists in
// lists, options for the rest of a group, groups with names, references.
std::string pattern_for_pcre2(std::string_view pattern, bool young, const std::string& place);

// The characters of a class for inside of [ ], as "L" or "Nd"; empty: no such class is known.
std::string characters_of_class(std::string_view name, bool young);
// The same for Rust's \w: letters and their like, marks, digits and what joins them.
std::string characters_of_words(bool young);

}  // namespace gossamer::data
