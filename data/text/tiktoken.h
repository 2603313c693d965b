// OpenAI's files of ranks (.tiktoken): on each line the bytes of a token in base64, a space and its
// rank, which is its id.
// Threads: any.
#pragma once

#include <memory>
#include <string>

#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

// split: the name of the pattern (named_pattern()), which the file does not say; nor does it say
// its marks, so these are those that OpenAI gives the vocabulary of this size, or <|endoftext|>
// behind the others. It is kept as a tokenizer.json of the same ids. DataError names file and line.
std::shared_ptr<const Tokenizer> read_tiktoken(const Tokenizer::StoredFile& file,
                                               const std::string& split);

// A tokenizer.json of byte pairs. tokens: their bytes, by id; marks: with their ids, beside them;
// merges: pairs of ids, the first merge first.
struct ByteLevelVocabulary {
  std::vector<std::string> tokens{};
  std::vector<std::pair<std::string, std::int32_t>> marks{};
  std::vector<std::pair<std::int32_t, std::int32_t>> merges{};
  bool ignore_merges = false;
};
std::string byte_level_json(const ByteLevelVocabulary&, const std::string& split);

}  // namespace gossamer::data
