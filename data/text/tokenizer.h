// A tokenizer turns text into the ids that a language model reads, and ids into text. Its files are
// read by tokenizer_json.h (Hugging Face), byte_pairs.h (GPT-2), tiktoken.h, sentence_piece.h and
// characters.h.
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
  // The ids that a model expects in front of a text and behind it, as Llama's begin mark. encode()
  // does not give them.
  struct Frame {
    std::vector<std::int32_t> before{}, after{};
  };
  virtual Frame frame() const { return {}; }
  // Whether a text has the ids of its parts if it is cut in front of a space between two ASCII
  // letters.
  virtual bool can_cut_at_words() const { return true; }
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
  // What is left out in front of a decoded text: up to `most` of a character.
  struct Strip {
    std::string_view character{};
    int most = 0;
  };

 private:
  friend class TextOfIds;
  // 0 <= id < size(). first: of the first id of a text, where it may be another one.
  virtual std::string_view text_of(std::int32_t id, bool first) const = 0;
  virtual Strip strip() const { return {}; }
  // A hash of all that decides which ids a text has.
  virtual std::uint64_t rules() const = 0;
};

// Decodes one id after the other.
class TextOfIds {
 public:
  // goes_on: behind other text, so that no id is the first one.
  explicit TextOfIds(const Tokenizer&, bool goes_on = false);
  // Appends the id's text. DataError: it is not in the vocabulary.
  void add(std::int32_t id, std::string& text);

 private:
  const Tokenizer& tokenizer_;
  bool first_;
  int strip_;  // characters that may still be left out
};

// The tokenizer in a folder: tokenizer.json (Hugging Face), with tokenizer_config.json and
// chat_template.jinja if they are there; vocab.json and merges.txt (Hugging Face); encoder.json and
// vocab.bpe (OpenAI); tokenizer.model (SentencePiece); or characters.json; or the one whose file is
// named, also a .model or .tiktoken file. DataError names file and
// line. split: of a .tiktoken file, the name of the pattern that it belongs to (tiktoken.h).
std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path,
                                                const std::string& split = "");
// The same; null if the folder has none of these files.
std::shared_ptr<const Tokenizer> find_tokenizer(const std::string& folder);

}  // namespace gossamer::data
