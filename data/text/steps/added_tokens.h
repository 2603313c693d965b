// Tokens that are cut out of a text before anything else: the marks, and words that were added.
// Threads: any, once all are there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/parallel.h"

namespace gossamer::data {

struct AddedToken {
  std::int32_t id = 0;
  std::string content{};
  bool special = false;      // a mark; encode() takes its name for text
  bool single_word = false;  // only where no character of a word stands beside it
  bool strips_left = false, strips_right = false;  // takes the white space beside it
  // The content is sought in the text that the normalizer has made, and was made by it, too.
  bool normalized = false;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);
  // Calls other(part) and token(id) for the parts of a text, in order. Of tokens that begin at one
  // place the longest counts. specials: those of them are found, too.
  void split(std::string_view text, bool specials, FunctionRef<void(std::string_view)> other,
             FunctionRef<void(std::int32_t)> token) const;
  bool empty() const { return tokens_.empty(); }

 private:
  // The longest one that begins the text; null: none does.
  const AddedToken* at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // by content
  bool begins_[256] = {};           // whether one begins with this byte
};

}  // namespace gossamer::data
