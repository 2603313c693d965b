// The split of text into pieces, inside which byte pairs are merged, by a published pattern.
// Threads: any, also for one WordSplitter.
#pragma once

#include <string_view>

#include "gossamer/core/parallel.h"
#include "gossamer/data/text/steps/pattern.h"

namespace gossamer::data {

class WordSplitter {
 public:
  // name: of a pattern (named_pattern()).
  explicit WordSplitter(std::string_view name = "gpt2");
  // Calls piece() for every piece, in order; together they are the text. A run of bytes that are no
  // UTF-8 is a piece of its own.
  void split(std::string_view text, FunctionRef<void(std::string_view)> piece) const;

 private:
  Pattern pattern_;
};

// Calls valid() for the parts of a text that are UTF-8, and other() for the bytes between them.
void each_valid_part(std::string_view text, FunctionRef<void(std::string_view)> valid,
                     FunctionRef<void(std::string_view)> other);

// A position near `near` where the text may be cut, so that both parts are split as the whole: in
// front of a space between two ASCII letters. The end of the text if there is none after `near`.
std::size_t word_boundary(std::string_view text, std::size_t near);

}  // namespace gossamer::data
