// Untrusted bytes that are read at any position: a file, or a span for tests.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace gossamer {

class InputFile {
 public:
  // IoError: it cannot be opened, or is no regular file (a FIFO does not hang us).
  explicit InputFile(const std::filesystem::path&);
  // The bytes must live as long; `name` stands in errors.
  InputFile(std::span<const std::byte> bytes, const std::string& name);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // for messages: printable
  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  // IoError: it ends before, or became shorter, or cannot be read.
  void read(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  std::string name_;
  std::uint64_t size_ = 0;
  int fd_ = -1;
  std::span<const std::byte> bytes_;
};

}  // namespace gossamer
