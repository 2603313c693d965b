// How deep a text nests, before a parser builds a tree of it: what walks such a tree (copies,
// prints, frees it) may need stack for each level, and a few bytes of a file make a level.
#pragma once

#include <string_view>

namespace gossamer {

// Lists and objects that stand in one another. No file of ours or of Hugging Face has 10.
constexpr int kDeepestJson = 100;
int json_depth(std::string_view json);

// A value without text (a Json of nlohmann's, which only the callers include) if `json` is not
// JSON, or nests deeper than kDeepestJson.
template <class Json>
Json parse_json(std::string_view json) {
  return json_depth(json) > kDeepestJson ? Json(Json::value_t::discarded)
                                         : Json::parse(json, nullptr, false);
}

// The most names of one key: a.b.c has three. (Of lists and tables in one another toml++ takes
// 256.)
int toml_names(std::string_view toml);

}  // namespace gossamer
