// Small file helpers of the data sets: positioned reads, read-only mapping, endings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

constexpr std::size_t kMaxEncoded = std::size_t{256} << 20;    // an encoded image is never larger; what claims to be is damage
void check_encoded_size(std::uint64_t bytes, const std::string& name);   // DataError above it, before memory is asked for

std::string printable(std::string name);                       // control characters become '?': names end up in terminals and lists

class File {                                                   // open for reading; DataError names the path and the reason
 public:
  explicit File(std::string path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }
  std::size_t size() const { return size_; }
  void read(std::size_t offset, std::span<std::byte> to) const;   // thread-safe; DataError when cut short

 private:
  std::string path_;
  int fd_ = -1;
  std::size_t size_ = 0;
};

class Mapping {                                                // the whole file as memory, read once from start to end
 public:
  explicit Mapping(const File&);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

bool is_image_name(const std::string& name);                   // by its ending, upper or lower case

// Sample names and labels of a big data set: one block of text instead of a million strings.
class Samples {
 public:
  void add(const std::string& name, int label) {
    text_ += name;
    end_.push_back(text_.size());
    label_.push_back(label);
  }
  i64 size() const { return static_cast<i64>(end_.size()); }
  std::string name(i64 i) const {
    const std::size_t begin = i ? end_[static_cast<std::size_t>(i) - 1] : 0;
    return text_.substr(begin, end_[static_cast<std::size_t>(i)] - begin);
  }
  int label(i64 i) const { return label_[static_cast<std::size_t>(i)]; }

 private:
  std::string text_;
  std::vector<std::size_t> end_;
  std::vector<int> label_;
};

}  // namespace gossamer::data
