// Our packed shards: JPEG files one after the other, each behind its checksum, and an index at the
// end. The format is described in README.md.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/data/formats/index.h"
#include "gossamer/data/formats/reader.h"

namespace gossamer::data {

constexpr const char* kPackEnding = ".pack";

bool looks_like_pack(std::span<const std::byte> start);  // of a file, 8 bytes or more
// DataError: version, checksum, offsets outside the file
Index index_packed(Reader& shard, const std::string& path);

// Writes one shard: into a temporary file beside `path`, which takes its place when close() has
// flushed everything to the disk. IoError names the file and what is wrong with it, also where
// another process is writing it. Destroyed before close(), nothing is left; killed before, the
// temporary file is, and the next writer takes it over.
class PackWriter {
 public:
  // stamp, source: see Index
  PackWriter(std::string path, const std::vector<std::string>& classes, std::uint64_t stamp);
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;
  void add(const std::string& name, int label, std::span<const std::byte> bytes);
  void leave_out(std::string name_and_reason);
  std::uint64_t close(std::uint64_t source);  // bytes of the shard

 private:
  void write(const void* data, std::size_t bytes);
  void flush();
  std::string path_, temporary_;
  int fd_ = -1;
  std::uint64_t at_ = 0;
  std::vector<std::byte> pending_;
  std::vector<std::string> classes_;
  Index index_;
};

}  // namespace gossamer::data
