// Our packed shards: JPEG files one after the other, each after its checksum, and an index at the
// end. README.md describes the format.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/data/formats/byte_reader.h"
#include "gossamer/data/formats/index.h"

namespace gossamer::data {

constexpr const char* kPackEnding = ".pack";

bool looks_like_pack(std::span<const std::byte> start);  // of a file, 8 bytes or more
// DataError: another version, a wrong checksum, offsets outside the file
Index index_packed(ByteReader& shard, const std::string& path);

// Writes one shard into a temporary file beside `path`. close() flushes it to the disk and renames
// it to `path`. IoError names the file and what is wrong; it is also an error if another process is
// writing the same shard. The destructor removes a file that was not closed. If the process is
// killed, the temporary file stays, and the next writer uses it again.
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
  Index index_;
};

}  // namespace gossamer::data
