// How deep a text nests, before a parser builds a tree of it: what walks such a tree (copies,
// prints, frees it) may need stack for each level, and a few bytes of a file make a level.
#pragma once

#include <string_view>

namespace gossamer {

// Lists and objects that stand in one another. No file of ours or of Hugging Face has 10.
constexpr int kDeepestJson = 100;
int json_depth(std::string_view json);

// The most names of one key: a.b.c has three. (Of lists and tables in one another toml++ takes
// 256.)
int toml_names(std::string_view toml);

}  // namespace gossamer
