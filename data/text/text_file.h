// Files of text, read line by line: plain, or compressed by gzip or zstd.
// Threads: any for functions; one at a time for a TextFile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

class TextFile {
 public:
  // path: "-" is standard input. Compression is recognised by the first bytes. waiting: called ten
  // times a second while standard input gives nothing; it may throw. DataError: no such file, or
  // not a regular one.
  explicit TextFile(const std::string& path, std::function<void()> waiting = {});
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  class Bytes;  // where they come from

  const std::string& path() const;  // or "standard input"
  // Replaces `line` by the next one, with its line feed if it has one. False: the file is over.
  // DataError names file and place: damaged gzip or zstd, or a line above 1 GiB. IoError: standard
  // input fails.
  bool next(std::string& line);
  bool is_standard_input() const;
  i64 number() const;      // of the line that next() gave, from 1 on
  i64 bytes_read() const;  // of the file on disk
  // "FILE:LINE", for errors
  std::string place() const;
  // DataError names line and byte if the line is no UTF-8.
  void check_utf8(const std::string& line) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The ending that says what a file holds, in lower case and without .gz or .zst: ".txt", or "".
std::string text_suffix(const std::string& path);

// The files that these paths name, in this order; of a folder all below it that end with .txt,
// .text, .md or .jsonl (upper or lower case), also with .gz or .zst behind, sorted by path, without
// hidden ones. "-" is kept. Those of folders that end otherwise are added to `others`. DataError:
// there are none.
std::vector<std::string> find_text_files(const std::vector<std::string>& paths,
                                         std::vector<std::string>* others = nullptr);

}  // namespace gossamer::data
