// The merges of byte pairs: which two ids become which third, and which merge comes first.
// Threads: any once all is added; a PieceInHand belongs to one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

// The ids of one piece of text while its pairs are merged; one per thread, its memory is reused.
class PieceInHand {
 private:
  friend class Merges;
  struct Part {
    std::int32_t id, previous, next;  // neighbours by position; id -1: merged into its left one
  };
  struct Pair {
    std::int32_t rank, at, left, right;
  };
  std::vector<Part> parts_;
  std::vector<Pair> heap_;
};

class Merges {
 public:
  // of_byte: the id of each byte
  explicit Merges(const std::array<std::int32_t, 256>& of_byte) : of_byte_(of_byte) {}
  // The next merge. False: these two are merged already.
  bool add(std::int32_t left, std::int32_t right, std::int32_t result);
  // Appends the ids of a piece: the first merge that applies anywhere is done first, the leftmost
  // place first. O(n log n).
  void encode(std::string_view piece, PieceInHand&, std::vector<std::int32_t>& ids) const;
  std::int32_t of_byte(unsigned char byte) const { return of_byte_[byte]; }

 private:
  struct Merge {
    std::int32_t left = -1, right = -1, rank = 0, result = 0;
  };
  const Merge* find(std::int32_t left, std::int32_t right) const;
  void grow();

  std::array<std::int32_t, 256> of_byte_;
  std::vector<Merge> table_;  // open addressing; left -1: free. Its size is a power of two.
  std::int32_t count_ = 0;
};

// The ids of whole words. Most pieces of a text are one id, so they need no merges.
class WholeWords {
 public:
  void add(std::string_view word, std::int32_t id);  // words of 1 … 255 bytes, each once
  std::int32_t find(std::string_view word) const;    // -1: none

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::uint32_t offset = 0, length = 0;  // in bytes_; length 0: free
    std::int32_t id = 0;
  };
  void place(const Entry&);

  std::string bytes_;
  std::vector<Entry> table_;  // as Merges'
  std::size_t count_ = 0;
};

}  // namespace gossamer::data
