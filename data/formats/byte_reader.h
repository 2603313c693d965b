// The bytes of a container, in memory or in a file, for the parsers of tar, TFRecord and our own
// shards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gossamer/data/files.h"

namespace gossamer::data {

class ByteReader {
 public:
  virtual ~ByteReader() = default;
  virtual std::uint64_t size() const = 0;
  // `count` bytes from `offset` on, valid until the next call. The caller has compared both with
  // size().
  virtual std::span<const std::byte> at(std::uint64_t offset, std::size_t count) = 0;
};

class MemoryReader final : public ByteReader {
 public:
  explicit MemoryReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  std::span<const std::byte> at(std::uint64_t offset, std::size_t count) override {
    return bytes_.subspan(offset, count);
  }

 private:
  std::span<const std::byte> bytes_;
};

// Reads a page at each header and skips the pictures between them: of a tar of 138 GB it reads 5
// GB. A mapping would read ahead over the pictures, and end the process if the file is cut
// meanwhile.
class FileReader final : public ByteReader {
 public:
  explicit FileReader(const File& file) : file_(file) {}
  std::uint64_t size() const override { return file_.size(); }
  std::span<const std::byte> at(std::uint64_t offset, std::size_t count) override {
    if (offset < begin_ || offset + count > begin_ + window_.size()) {
      window_.resize(static_cast<std::size_t>(
          std::min<std::uint64_t>(std::max<std::size_t>(count, 4096), file_.size() - offset)));
      begin_ = offset;
      file_.read(offset, window_);
    }
    return std::span(window_).subspan(static_cast<std::size_t>(offset - begin_), count);
  }

 private:
  const File& file_;
  std::uint64_t begin_ = 0;
  std::vector<std::byte> window_;
};

}  // namespace gossamer::data
