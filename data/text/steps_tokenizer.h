// A tokenizer that is made of steps, as tokenizers of Hugging Face are: tokens that were added are
// cut out of the text, the rest is normalized and split, and a model makes ids of the pieces.
// Threads: any, also for one tokenizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/data/text/steps/added_tokens.h"
#include "gossamer/data/text/steps/decode.h"
#include "gossamer/data/text/steps/normalize.h"
#include "gossamer/data/text/steps/piece_model.h"
#include "gossamer/data/text/steps/pre_tokenize.h"
#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

struct TokenizerSteps {
  std::vector<AddedToken> added{};  // contents of at least one byte
  Normalizer normalizer{};
  PreTokenizers pre{};
  std::unique_ptr<PieceModel> model{};
  DecodedTokens decoded{};  // text: one for each id
  Tokenizer::Frame frame{};
  Marks marks{};
  // Whether the normalizer does the same to parts of a text that is cut in front of a space between
  // two letters.
  bool normalizer_is_local = true;
  std::vector<Tokenizer::StoredFile> files{};
  std::uint64_t rules = 0;  // a hash of all of these that decides about ids, but added and frame
};

std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerSteps);

}  // namespace gossamer::data
