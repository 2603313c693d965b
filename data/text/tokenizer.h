// A tokenizer turns text into the ids that a language model reads, and ids into text. There are two
// kinds: byte_pairs.h (GPT-2's, and smaller vocabularies made here) and characters.h.
// Threads: any, also for one Tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

// Ids that stand for no text; -1: the vocabulary has no such id.
struct Marks {
  std::int32_t end = -1;    // after a document (<|endoftext|>) or a sentence (</s>)
  std::int32_t begin = -1;  // before a translation (<s>)
  std::int32_t pad = -1;    // behind the sentences of a batch that are shorter than others (<pad>)
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  virtual i64 size() const = 0;  // ids are 0 … size() - 1
  virtual Marks marks() const = 0;
  // Appends the ids of a text. What looks like a mark is text as any other, so no text can end a
  // document.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;
  // The same, but the name of a mark in the text becomes the mark.
  virtual void encode_with_marks(std::string_view text, std::vector<std::int32_t>& ids) const = 0;
  // Appends the text of ids; a mark is written as its name. DataError: an id that is not in the
  // vocabulary.
  void decode(std::span<const std::int32_t> ids, std::string& text) const;

  struct StoredFile {
    std::string name, bytes;
  };
  // What open_tokenizer() reads, by the names that it knows.
  virtual std::vector<StoredFile> files() const = 0;
  // A hash of these files: two tokenizers with one hash give the same ids.
  std::uint64_t hash() const;
  // Whether both give the same ids. Files that differ in white space, or in the order of what they
  // list, may say the same.
  bool same_ids(const Tokenizer& other) const { return rules() == other.rules(); }

 protected:
  Tokenizer() = default;

 private:
  virtual const std::string& text_of(std::int32_t id) const = 0;  // 0 <= id < size()
  // A hash of all that decides which ids a text has.
  virtual std::uint64_t rules() const = 0;
};

// The tokenizer in a folder: vocab.json and merges.txt (Hugging Face), encoder.json and vocab.bpe
// (OpenAI), or characters.json; or whose file is named. DataError names file and line.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path);
// The same; null if the folder has none of these files.
std::shared_ptr<const Tokenizer> find_tokenizer(const std::string& folder);

}  // namespace gossamer::data
