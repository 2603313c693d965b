// Turns text into files of ids, for `gossamer data tokenize`.
// Threads: one at a time for a folder; tick is called by the calling thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::data {

enum class HeldOut { order, hash };
HeldOut parse_held_out(const std::string& name);  // ConfigError: neither order nor hash

struct TokenizeOptions {
  // Files or folders (find_text_files()); one may be "-", standard input. With targets: lines that
  // belong together, file by file.
  std::vector<std::string> sources{}, targets{}, val_sources{}, val_targets{};
  std::string folder{};  // to be written; new or empty
  // A path (open_tokenizer()); or bpe:N, a vocabulary of N ids made of the training text; or
  // characters, those of all text
  std::string tokenizer{};
  // The pattern that cuts text into words (named_pattern()): of bpe:N (empty: gpt2), or of a
  // .tiktoken file. Other tokenizers have their own.
  std::string split{};
  bool marks = false;  // names of marks in the text become marks
  // This part of the training documents or pairs becomes validation data.
  double val_fraction = 0;
  // Which ones: every 1/F-th, or the end of a single document; or those whose text (of pairs: the
  // source) has an XXH3-64 below F * 2^64. So the hash of a text alone decides: equal texts are on
  // one side, and more text changes nothing for what there was before.
  HeldOut val_by = HeldOut::order;
  // A line that ends a document; it is no text. So does the end of a file.
  std::string separator = "<|endoftext|>";
  // Of JSON lines (json_lines.h): the field with the text; empty: "text". Standard input holds JSON
  // lines if it is given.
  std::string field{};
  // The files are JSON lines of examples (examples.h). chat: the template of those with messages;
  // empty: the tokenizer's.
  bool examples = false;
  std::string chat{};
  i64 max_length = 0;  // pairs with a longer side, in ids with the mark, are left out; 0: none
  TokenFormat format = TokenFormat::llmc;
  i64 shard_tokens = 100'000'000;
  bool any_bytes = false;  // text may be no UTF-8
  int threads = 2;
};

struct TokenizeReport {
  TextIndex index;
  i64 empty = 0, too_long = 0;  // pairs that were left out
  // Left out: files without text, and files of folders whose ending is none of text.
  std::vector<std::string> empty_files{}, other_files{};
  i64 ids_asked = 0;     // bpe:N: more than the vocabulary has, where no other pair occurs twice
  i64 longest_word = 0;  // bpe:N: in bytes
  // Of examples: what ends an answer, if the tokenizer has no such mark and spells it.
  std::string spelled_mark{};
  bool whole = true;  // false: tick() stopped it, and nothing was written
};

// tick(kibibytes of the files that were read) returns false to stop; about ten times a second.
// DataError names file and line: wrong UTF-8, sides with different numbers of lines, nothing to
// read. ConfigError: an option makes no sense.
TokenizeReport tokenize(const TokenizeOptions&, FunctionRef<bool(i64)> tick);
// What tick() will count up to.
i64 tokenize_kibibytes(const TokenizeOptions&);

}  // namespace gossamer::data
