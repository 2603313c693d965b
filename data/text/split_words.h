// GPT-2's split of text into pieces, inside which byte pairs are merged.
// Threads: any, also for one WordSplitter.
#pragma once

#include <memory>
#include <string_view>

#include "gossamer/core/parallel.h"

namespace gossamer::data {

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+  with the classes of
// character_classes.h.
class WordSplitter {
 public:
  WordSplitter();
  ~WordSplitter();
  WordSplitter(const WordSplitter&) = delete;
  WordSplitter& operator=(const WordSplitter&) = delete;
  // Calls piece() for every piece, in order; together they are the text. A run of bytes that are no
  // UTF-8 is a piece of its own.
  void split(std::string_view text, FunctionRef<void(std::string_view)> piece) const;

 private:
  class Pattern;
  std::unique_ptr<Pattern> common_, young_;  // for text without, and with, young characters
};

// A position near `near` where the text may be cut, so that both parts are split as the whole: in
// front of a space between two ASCII letters. The end of the text if there is none after `near`.
std::size_t word_boundary(std::string_view text, std::size_t near);

}  // namespace gossamer::data
