// Texts that grow together, id by id, beyond the positions that their model has.
// Threads: one at a time for a GrowingTexts and its Decoder.
#pragma once

#include <cstdint>
#include <vector>

#include "gossamer/models/decoder.h"

namespace gossamer::models {

// The texts of one group as a decoder has them: rows beyond them, which fill up its batch, do as
// the first text does.
class GrowingTexts {
 public:
  using Ids = Decoder::Ids;
  // texts: none empty, whose ids live and grow where they are; the decoder has begun. cache: false:
  // each step reads all ids again.
  GrowingTexts(std::vector<const Ids*> texts, Decoder&, bool cache = true);
  // Ids that each text has at least. A text of as many gets the next one of next().
  std::size_t known() const { return known_; }
  // The id behind the first known() ids of each text; of a longer text, its own. The caller appends
  // it before the next call. A GPU computes the ids after them meanwhile.
  Ids next();

 private:
  void ask();
  bool can_go_on() const;
  const Ids& text(i64 row) const;

  std::vector<const Ids*> texts_;
  Decoder& decoder_;
  bool with_cache_, ahead_, begun_ = false;
  std::size_t begin_ = 0, known_, asked_;
};

}  // namespace gossamer::models
