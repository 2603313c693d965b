// The names of a million samples in little memory: each is kept as what differs from the one before
// it, in blocks of sixteen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/core/parallel.h"

namespace gossamer::data {

class Names {
 public:
  void add(std::string_view name);
  i64 size() const { return size_; }
  std::string at(i64 i) const;                                        // walks at most fifteen names
  void each(FunctionRef<void(i64, const std::string&)> visit) const;  // all, in order
  std::size_t memory() const { return text_.capacity() + block_.capacity() * sizeof block_[0]; }
  // gives back what growing had reserved
  void shrink();

  // As stored in a file, and back. DataError if the text does not hold exactly `count` names.
  const std::vector<std::uint8_t>& text() const { return text_; }
  static Names parse(std::span<const std::byte> text, i64 count, const std::string& file);

 private:
  // One name from text_[at] on, given the one before it; moves `at` behind it.
  void step(std::size_t& at, std::string& name) const;

  // each: bytes shared, bytes that follow (7 bits a byte), those bytes
  std::vector<std::uint8_t> text_;
  // where every sixteenth begins
  std::vector<std::uint64_t> block_;
  std::string last_;
  i64 size_ = 0;
};

}  // namespace gossamer::data
