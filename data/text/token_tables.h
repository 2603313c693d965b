// The tables of a tokenizer of byte pairs, for formats of others that list them.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

// What a token stands for, with SentencePiece's numbers.
enum class TokenKind : std::int32_t {
  normal = 1,
  unknown = 2,
  control = 3,  // a mark
  user_defined = 4,
  unused = 5,  // an id that no token has
  byte = 6
};

// byte_level: a token is bytes, written as byte_names.h says, and neighbours become one by the list
// of merges. Else it is characters, with U+2581 for a space: those neighbours become one whose
// concatenation is the token with the highest score, as in SentencePiece.
struct TokenTables {
  bool byte_level = false;
  std::vector<std::string> tokens{};  // by id
  std::vector<TokenKind> kinds{};
  std::vector<std::string> merges{};  // byte_level: "LEFT RIGHT", the first merge first
  std::vector<float> scores{};        // else
  // byte_level: how text is cut: a name of named_pattern(), or "digits": each digit, then as gpt2
  std::string split{};
  bool ignore_merges = false;        // byte_level: a whole piece that is a token is its id
  bool space_in_front = false;       // else: of each part between marks
  std::vector<std::string> notes{};  // what they do not say, and for which texts
};

// DataError: such tables cannot say what the tokenizer does; names the step.
TokenTables token_tables(const Tokenizer&);

}  // namespace gossamer::data
