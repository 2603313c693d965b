// Byte-level byte pair encoding, as GPT-2 has it (Radford et al., "Language models are unsupervised
// multitask learners", 2019; Sennrich, Haddow, Birch, ACL 2016). Every byte has an id, so any bytes
// are encoded and decoded without loss, also those that are no UTF-8.
// Threads: any for functions; one at a time for a BytePairTrainer.
#pragma once

#include <memory>

#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

// vocabulary: a JSON object from tokens to ids; merges: a line with two tokens for each merge, the
// first merge first. In both a byte is written as GPT-2 does: printable ASCII and Latin-1 as they
// are, the others as U+0100 and following. Tokens that are neither a byte nor a merge's result are
// marks. DataError names the file and its line.
std::shared_ptr<const Tokenizer> read_byte_pairs(const Tokenizer::StoredFile& vocabulary,
                                                 const Tokenizer::StoredFile& merges);

// Makes a vocabulary of `size` ids: the marks, the 256 bytes, and the merges of the most frequent
// pairs of `texts` (all of them are counted, the pair with the smaller ids first among equals).
// Equal to Hugging Face's BpeTrainer. Fewer ids if no pair occurs twice. ConfigError: `size` has no
// room for marks and bytes.
// split: the name of the pattern that cuts the text (named_pattern()); of another than gpt2 the
// tokenizer is a tokenizer.json.
class BytePairTrainer {
 public:
  explicit BytePairTrainer(const std::string& split = "gpt2");
  ~BytePairTrainer();
  BytePairTrainer(const BytePairTrainer&) = delete;
  BytePairTrainer& operator=(const BytePairTrainer&) = delete;
  void add(std::string_view text);
  i64 longest_word() const;  // in bytes; of what lies between spaces, digits and punctuation
  std::shared_ptr<const Tokenizer> train(i64 size, const std::vector<std::string>& marks) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::data
