// Tokenized text: a folder that `gossamer data tokenize` made, or .bin files of nanoGPT and llm.c.
// Threads: any.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/data/text/token_files.h"
#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

// Training or validation data.
struct TextPart {
  // Documents, each followed by the end mark; of pairs the source sentences.
  std::shared_ptr<const TokenFiles> tokens;
  // The translations of pairs: sentence i of both is a pair. Each ends with the end mark.
  std::shared_ptr<const TokenFiles> targets;
  // Of examples: a Learnt (examples.h) for each id; null: every id but the first is learnt.
  std::shared_ptr<const TokenFiles> learnt;
  i64 learnt_ids = 0;
  i64 items = 0;  // documents, pairs or examples; 0: not known
  // UTF-8 of the text that is predicted (of pairs: the targets): bits per byte need it; 0: not
  // known
  i64 text_bytes = 0;
  bool empty() const { return !tokens; }
  // Ids that a language model predicts.
  i64 labels() const { return learnt ? learnt_ids : tokens ? tokens->size() - 1 : 0; }
};

struct TextSet {
  std::string path;
  bool pairs = false;
  std::string chat;                            // of examples: the template, if it was named
  std::shared_ptr<const Tokenizer> tokenizer;  // null: .bin files without one
  i64 vocabulary = 0;                          // 0: not known
  Marks marks;
  TextPart train, val;  // either may be empty
};

// path: a folder with index.json; a folder with .bin files and perhaps a tokenizer, where "val" as
// a word of a file's name makes it validation text (train.bin, val.bin; fineweb_train_000001.bin …,
// fineweb_val_000000.bin), and shards follow each other by name; or one .bin file, which becomes
// `train`. vocabulary: ids are below it, if the path does not say how
// many there are (0: not known). DataError names the file that is missing or wrong.
TextSet open_text(const std::string& path, i64 vocabulary = 0);

// A folder that tokenize() made, as its index.json says.
bool is_text_set(const std::string& path);

// What index.json says, as it is written.
struct TextIndex {
  struct Part {
    std::vector<std::string> files{}, target_files{}, learnt_files{};  // names in the folder
    i64 tokens = 0, target_tokens = 0, learnt = 0, items = 0, text_bytes = 0;
  };
  // What it was made of, for people: the tokenizer and the split as they were named, the files or
  // folders of text, and other options of tokenize() by their names.
  struct Made {
    std::string tokenizer{}, split{};
    std::vector<std::string> text{}, val_text{};
    std::map<std::string, std::string> options{};
  };
  bool pairs = false;
  i64 vocabulary = 0;
  Made made{};
  std::uint64_t tokenizer = 0;  // its hash
  Marks marks{};
  Part train{}, val{};
};
std::string encode_text_index(const TextIndex&);
// DataError names the file `name` and what is wrong. File names have no folder in them.
TextIndex decode_text_index(const std::string& json, const std::string& name);

}  // namespace gossamer::data
