// How deep a text nests, and what else a parser should not see, before a parser builds a tree of
// it: what walks such a tree (copies, prints, frees it) may need stack for each level, and a few
// bytes of a file make a level.
#pragma once

#include <string_view>

namespace gossamer {

// Lists and objects that stand in one another. No file of ours or of Hugging Face has 10.
constexpr int kDeepestJson = 100;
int json_depth(std::string_view json);

struct TomlFacts {
  // The most of one key: a.b.c has three. (Of lists and tables in one another toml++ takes 256.)
  int names = 1;
  // Where the first byte beyond ASCII is that stands neither in quotes nor in a comment: no TOML
  // has one. npos: nowhere. A byte order mark at the beginning is none.
  std::size_t beyond_ascii = std::string_view::npos;
};
TomlFacts toml_facts(std::string_view toml);

}  // namespace gossamer
