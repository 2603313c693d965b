// A vocabulary of characters: each code point of UTF-8 that a text has is one id, in their order.
// nanoGPT's small models of Shakespeare have it.
// Threads: any for functions; one at a time for a CharacterSet.
#pragma once

#include <set>

#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

// `file`: a JSON list of characters, one string each. DataError: it is none.
std::shared_ptr<const Tokenizer> read_characters(const Tokenizer::StoredFile& file);

// The characters that were added, in order.
class CharacterSet {
 public:
  // DataError names `name` and the byte where the text is no UTF-8.
  void add(std::string_view text, const std::string& name);
  std::shared_ptr<const Tokenizer> tokenizer() const;

 private:
  std::set<std::string> characters_;
};

}  // namespace gossamer::data
