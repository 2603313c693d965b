// Which known name a misspelt word probably is.
// Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gossamer {

// The fewest letters to insert, remove, replace, or swap with the next one (optimal string
// alignment) that make `b` of `a`.
std::size_t edit_distance(const std::string& a, const std::string& b);

// Whether so many edits are a slip, not another word. A word of up to two letters may have none, up
// to five one, up to nine two, a longer one three.
bool is_slip(std::size_t edits, const std::string& word);

// The names nearest to `word`, all equally near; none if it is no slip of any name. A word without
// "-" is also compared with the part of a name before its first "-": resnet8 of resnet8-cifar.
std::vector<std::string> nearest(const std::string& word, const std::vector<std::string>& names);

// "a", "a or b", "a, b or c"; each between `quote`.
std::string alternatives(const std::vector<std::string>& names, const std::string& quote = "");

}  // namespace gossamer
