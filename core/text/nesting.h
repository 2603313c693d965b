// How deep a text nests, which is asked before a parser builds a tree of it: a walk of such a tree
// (to copy, print or free it) may need stack for each level, and a few bytes of a file make a
// level. Threads: any.
#pragma once

#include <string_view>

namespace gossamer {

// The depth of lists and objects in one another. No file of ours or of Hugging Face reaches 10.
constexpr int kDeepestJson = 100;
int json_depth(std::string_view json);

// The most names in one key: a.b.c has three. (For lists and tables in one another toml++ has a
// limit of its own, 256.)
int toml_names(std::string_view toml);

}  // namespace gossamer
