// The text that is to be tokenized, as documents or as pairs of lines.
// Threads: one at a time.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/data/text/text_file.h"
#include "gossamer/data/text/tokenize.h"

namespace gossamer::data {

// Reads all text, as often as it is asked to. DataError as tokenize().
class TextReader {
 public:
  struct Stopped {};  // thrown where tick() returned false
  // tick: as that of tokenize()
  TextReader(const TokenizeOptions& options, FunctionRef<bool(i64)> tick)
      : options_(options), tick_(tick) {}

  struct Document {
    std::string text, place;  // of examples: the line of JSON; place: FILE:LINE where it begins
    bool val;
  };
  void each_document(FunctionRef<void(Document&&)> visit);
  struct Pair {
    std::string source, target, place;
    bool val;
  };
  void each_pair(FunctionRef<void(Pair&&)> visit);

  void tick();
  i64 kibibytes() const { return (read_ + (open_ ? open_->bytes_read() : 0)) >> 10; }
  // Files without text, and those in folders whose ending is none of text; of the last time.
  const std::vector<std::string>& empty_files() const { return empty_; }
  const std::vector<std::string>& other_files() const { return others_; }

 private:
  void each_document_of(const std::vector<std::string>& paths, bool val,
                        FunctionRef<void(Document&&)> visit);
  void each_document_in(TextFile&, bool val, FunctionRef<void(Document&&)> visit);
  void visit_alone(Document&&, FunctionRef<void(Document&&)> visit);
  void each_pair_of(const std::vector<std::string>& sources,
                    const std::vector<std::string>& targets, FunctionRef<void(Pair&&)> visit);
  bool holds_json(const TextFile&) const;
  std::string text_of_line(const TextFile&, const std::string& line) const;
  bool read(TextFile&, std::string& line) const;
  void close(const TextFile&);

  const TokenizeOptions& options_;
  FunctionRef<bool(i64)> tick_;
  std::vector<std::string> empty_, others_;
  i64 read_ = 0;  // bytes of the files that are closed
  const TextFile* open_ = nullptr;
};

}  // namespace gossamer::data
