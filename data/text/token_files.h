// Files of ids (.bin). llm.c's have a header of 256 i32, little-endian: magic 20240520, version 1
// and the number of ids, which follow as u16; or magic 20240801, version 7, and u32. nanoGPT's are
// u16 and nothing else.
// Threads: any, also for one TokenFiles; one at a time for a TokenWriter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

class File;  // data/files.h

// The ids of several files, one after another.
class TokenFiles {
 public:
  // vocabulary: ids are below it; 0: not known. DataError names the file that is empty, cut short
  // or of another version.
  TokenFiles(const std::vector<std::string>& paths, i64 vocabulary);
  ~TokenFiles();
  i64 size() const { return ends_.empty() ? 0 : ends_.back(); }
  // The ids from position `at` on; at + to.size() <= size(). DataError: an id that is not in the
  // vocabulary, with its file and position.
  void read(i64 at, std::span<std::int32_t> to) const;
  i64 vocabulary() const { return vocabulary_; }
  const std::vector<std::string>& paths() const { return paths_; }
  // For errors: "FILE: id N", which id of which file is at this position.
  std::string place(i64 at) const;

 private:
  std::vector<std::unique_ptr<File>> files_;
  std::vector<i64> ends_;            // position behind each file's last id
  std::vector<std::size_t> begins_;  // byte of each file's first id
  std::vector<int> widths_;          // bytes of an id
  i64 vocabulary_;
  std::vector<std::string> paths_;
};

enum class TokenFormat { llmc, nanogpt };
TokenFormat parse_token_format(const std::string& name);  // ConfigError: neither llm.c nor nanogpt

// Writes ids into PREFIX-00000.bin, PREFIX-00001.bin …, or into PREFIX.bin alone (nanoGPT, which
// reads one file). Until close() they have the ending .tmp.
class TokenWriter {
 public:
  // shard: most ids of a file, at most 2^31 - 1. ConfigError: ids of this vocabulary need more than
  // u16, which nanoGPT's files have.
  TokenWriter(std::string prefix, TokenFormat, i64 vocabulary, i64 shard);
  ~TokenWriter();  // without close(): removes the files
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;
  // IoError names the file that can't be written.
  void add(std::span<const std::int32_t> ids);
  // Gives the files their names, and returns them, without folders. A writer without ids has none.
  std::vector<std::string> close();
  i64 size() const;  // ids so far

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::data
