// Helpers for files: reads at a position, whole small files, names.
// Threads: any, also for one File.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/core/text/printable.h"

namespace gossamer::data {

// No encoded image is larger: a larger size is damage.
constexpr std::size_t kMaxEncoded = std::size_t{64} << 20;
// DataError above it, before memory is asked for
void check_encoded_size(std::uint64_t bytes, const std::string& name);

// A file, open for reading. Errors that may pass (a network that is away for a moment) are tried
// again for 1.6 s. DataError, with path and reason: the file is missing, cut short, or can't be
// read (EIO). IoError: the file is not to blame (permissions, too many open files, no network, no
// memory).
class File {
 public:
  explicit File(std::string path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }
  std::size_t size() const { return size_; }
  void read(std::size_t offset, std::span<std::byte> to) const;

 private:
  std::string path_;
  int fd_ = -1;
  std::size_t size_ = 0;
};

// The content of a file. DataError if it is larger than the limit.
std::vector<std::byte> read_whole(const std::string& path, std::size_t limit);

bool is_image_name(const std::string& name);  // by its ending, upper or lower case

}  // namespace gossamer::data
