// Steps of a tokenizer that cut the text into pieces, in each of which the model merges.
// Threads: any, also for one PreTokenizer.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "gossamer/core/parallel.h"

namespace gossamer::data {

class Fields;

// A part of the text; first: it begins the text.
struct Piece {
  std::string_view text;
  bool first = false;
};
// Calls piece() for the pieces of a part, in order, none of them empty. They may hold other
// characters than the part, and live during the call.
using PreTokenizer = std::function<void(const Piece&, FunctionRef<void(std::string_view)> piece)>;

struct PreTokenizers {
  std::vector<PreTokenizer> steps{};  // each works on the pieces of the one before
  // The model's tokens are bytes, written as byte_names.h says (ByteLevel).
  bool byte_level = false;
  // word_boundary() (split_words.h) cuts a text where these steps cut it.
  bool cuts_at_words = false;

  void run(const Piece&, FunctionRef<void(std::string_view)> piece) const;
};

// ByteLevel (at the end only), Split, Digits, Metaspace, Whitespace, WhitespaceSplit, or a Sequence
// of them. DataError: it is another one, which is named, or is damaged.
PreTokenizers read_pre_tokenizer(const Fields&);
// ByteLevel as GPT-2 has it, with a named pattern.
PreTokenizers byte_level_split(std::string_view pattern);

}  // namespace gossamer::data
