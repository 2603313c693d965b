// The merges of byte pairs: which two ids become which third, and which merge comes first.
// Threads: any once all is added; a PieceInHand belongs to one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

// The ids of one piece of text while its pairs are merged; one per thread, its memory is reused.
class PieceInHand {
 public:
  // What the piece is before any merge.
  std::vector<std::int32_t>& symbols() { return symbols_; }

 private:
  friend class Merges;
  struct Part {
    std::int32_t id, previous, next;  // neighbours by position; id -1: merged into its left one
  };
  struct Pair {
    std::int32_t rank, at, left, right;
  };
  struct Next {
    std::int32_t rank, result;  // of a symbol and the one behind it
  };
  std::vector<std::int32_t> symbols_;
  std::vector<Next> next_;
  std::vector<Part> parts_;
  std::vector<Pair> heap_;
};

class Merges {
 public:
  // The next merge, in place of an earlier one of the same two. False: there was one.
  bool add(std::int32_t left, std::int32_t right, std::int32_t result);
  // Appends what the symbols in hand become: the first merge that applies anywhere is done first,
  // the leftmost place first. O(n log n).
  void merge(PieceInHand&, std::vector<std::int32_t>& ids) const;

 private:
  struct Merge {
    std::int32_t left = -1, right = -1, rank = 0, result = 0;
  };
  const Merge* find(std::int32_t left, std::int32_t right) const;
  void merge_few(PieceInHand&, std::vector<std::int32_t>& ids) const;
  void merge_many(PieceInHand&, std::vector<std::int32_t>& ids) const;
  void grow();

  std::vector<Merge> table_;  // open addressing; left -1: free. Its size is a power of two.
  std::int32_t count_ = 0, places_ = 0;  // merges that were added; places that are taken
};

// The ids of whole words. Most pieces of a text are one id, so they need no merges.
class WholeWords {
 public:
  void add(std::string_view word, std::int32_t id);  // words of 1 byte or more, each once
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
