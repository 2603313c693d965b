// What the tokens of a tokenizer are as text. The decoders of tokenizer.json map lists of tokens to
// lists; of those that are supported, a token's text depends on nothing but whether it is the first
// one, and characters are taken away at the beginning of the whole. So ids can be decoded one after
// the other.
// Threads: any.
#pragma once

#include <string>
#include <vector>

namespace gossamer::data {

class Fields;

struct DecodedTokens {
  // By id; first: where the token is the first of a text, empty if that is the same.
  std::vector<std::string> text{}, first{};
  // Then at the beginning of a text: up to so many of this character are left out.
  std::string strip{};
  int strip_most = 0;
};

// tokens: by id, as they stand in the vocabulary. ByteLevel; or Replace, Strip and Metaspace of
// each token, then ByteFallback, Fuse, and Strip of the whole; or a Sequence of these. Bytes that
// are no UTF-8 stay as they are, so nothing is lost; tokenizers writes U+FFFD for them. decoder
// null: tokens have spaces between them. DataError: another one, or another order, which is named.
DecodedTokens decode_tokens(std::vector<std::string> tokens, const Fields* decoder);

}  // namespace gossamer::data
