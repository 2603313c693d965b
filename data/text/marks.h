// Names of the marks, as Hugging Face's vocabularies have them.
// Threads: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

constexpr std::string_view kEndOfText = "<|endoftext|>";  // of documents
constexpr std::string_view kEndOfSentence = "</s>", kBeginOfSentence = "<s>", kPadding = "<pad>";

// id(name): of a mark, or -1.
inline Marks marks_of(FunctionRef<std::int32_t(std::string_view)> id) {
  const std::int32_t end = id(kEndOfText);
  return {end >= 0 ? end : id(kEndOfSentence), id(kBeginOfSentence), id(kPadding)};
}

// Calls plain(text) and mark(id) for the parts of a text with marks, in order.
inline void split_at_marks(std::string_view text, const Tokenizer& tokenizer,
                           FunctionRef<void(std::string_view)> plain,
                           FunctionRef<void(std::int32_t)> mark) {
  struct Named {
    std::int32_t id;
    std::string name;
    std::size_t at;
  };
  std::vector<Named> all;
  const Marks marks = tokenizer.marks();
  for (const std::int32_t id : {marks.end, marks.begin, marks.pad})
    if (id >= 0) {
      std::string name;
      tokenizer.decode(std::span(&id, 1), name);
      all.push_back({id, name, text.find(name)});
    }
  std::size_t at = 0;
  while (!all.empty()) {
    const Named& first = *std::ranges::min_element(all, {}, &Named::at);
    if (first.at == std::string_view::npos) break;
    if (first.at > at) plain(text.substr(at, first.at - at));
    mark(first.id);
    at = first.at + first.name.size();
    for (Named& each : all)
      if (each.at < at) each.at = text.find(each.name, at);
  }
  if (at < text.size()) plain(text.substr(at));
}

}  // namespace gossamer::data
