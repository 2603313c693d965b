// Names of the marks, as Hugging Face's vocabularies have them.
// Threads: any.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "gossamer/core/parallel.h"
#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

constexpr std::string_view kEndOfText = "<|endoftext|>";  // of documents
constexpr std::string_view kEndOfSentence = "</s>", kBeginOfSentence = "<s>", kPadding = "<pad>";

// id(name): of a mark, or -1. Of several that mean the same the first counts.
inline Marks marks_of(FunctionRef<std::int32_t(std::string_view)> id) {
  const auto first = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      if (const std::int32_t found = id(name); found >= 0) return found;
    return -1;
  };
  return {first({kEndOfText, kEndOfSentence, "<|end_of_text|>", "<eos>", "<|im_end|>"}),
          first({kBeginOfSentence, "<|begin_of_text|>", "<bos>"}), first({kPadding})};
}

}  // namespace gossamer::data
