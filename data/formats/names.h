// The names of a million samples in little memory: each is stored as its difference from the one
// before it, in blocks of sixteen.
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
  void add(std::string_view name);  // of a longer one only the first 128 KiB
  i64 size() const { return size_; }
  std::string at(i64 i) const;                                        // reads at most sixteen names
  void each(FunctionRef<void(i64, const std::string&)> visit) const;  // all, in order
  std::size_t bytes() const { return text_.capacity() + block_.capacity() * sizeof block_[0]; }
  void shrink_to_fit();

  // All names as bytes: of each the bytes shared with the name before (none for every sixteenth),
  // the length of the rest, 7 bits a byte, and the rest.
  const std::vector<std::uint8_t>& text() const { return text_; }
  // The names of such bytes, which are not trusted. DataError, naming `file`, unless they are
  // exactly `count` names.
  static Names parse(std::span<const std::byte> text, i64 count, const std::string& file);

 private:
  // Turns the name before text_[at] into the one there, and moves `at` behind it.
  void step(std::size_t& at, std::string& name) const;

  std::vector<std::uint8_t> text_;
  std::vector<std::uint64_t> block_;  // where every sixteenth name begins in text_
  std::string last_;                  // the name that was added last
  i64 size_ = 0;
};

}  // namespace gossamer::data
