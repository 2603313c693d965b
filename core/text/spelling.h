// Which known name a misspelt word probably is.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gossamer {

// The fewest letters to insert, remove, replace, or swap with the next one (optimal string
// alignment) that make `b` of `a`.
std::size_t edit_distance(const std::string& a, const std::string& b);

// Whether so many edits are a slip in a word of this length, not another word: none in two letters,
// one up to five, two up to nine, else three.
bool is_slip(std::size_t edits, const std::string& word);

// The names nearest to `word`, all equally near; none if it is a slip of none. A word without "-"
// is also compared with what stands before a name's first one: resnet8 of resnet8-cifar.
std::vector<std::string> nearest(const std::string& word, const std::vector<std::string>& names);

// "a", "a or b", "a, b or c"; each between `quote`.
std::string alternatives(const std::vector<std::string>& names, const std::string& quote = "");

}  // namespace gossamer
