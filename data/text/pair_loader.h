// Batches for translation: pairs of sentences of about one length, a batch by its number of ids.
// Threads: one at a time for a PairLoader.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/data/source.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::data {

struct PairLoaderOptions {
  // Rows times (source + target length, padding counted) is at most twice this: the ids of a side.
  i64 tokens = 4096;
  i64 rows = 0;          // most pairs of a batch; 0: no other limit
  i64 max_length = 0;    // longest side of a pair that the model takes, marks counted; 0: no limit
  int multiple = 1;      // lengths are padded to multiples of it, so that there are fewer shapes
  EpochOptions epoch{};  // its samples are batches
  bool pinned = false;
};

struct PairBatch {
  // i32 [N, S]: source sentences with the end mark, then padding; undefined: the epoch is over
  Tensor source;
  Tensor inputs;  // i32 [N, T]: the begin mark and the target sentence, then padding
  Tensor labels;  // i32 [N, T]: the target sentence and the end mark, then kNoLabel
  Tensor source_lengths, target_lengths;  // i32 [N]: without padding
  std::vector<i64> pairs;                 // [N]: which pairs of the set these are
  i64 labelled = 0;                       // labels that are ids
  // The most that a batch of this loader has: rows, elements of `source`, of `inputs` and `labels`.
  struct Room {
    i64 rows = 0, source = 0, target = 0;
  } room;
};

// All pairs are sorted by length once and cut into batches (Vaswani et al., 2017; fairseq). Each
// epoch, pairs of equal lengths change places, and the batches come in another order: so steps()
// and the shapes stay the same.
class PairLoader final : public BatchSource<PairBatch> {
 public:
  // Reads all ids once, for the lengths. DataError: the sides have different numbers of sentences,
  // or a sentence is longer than a batch or max_length. ConfigError: an option makes no sense, or
  // the vocabulary has no marks for pairs.
  PairLoader(const TextPart&, Marks, PairLoaderOptions);
  ~PairLoader() override;

  i64 steps() const override;
  void seek(i64 epoch, i64 step = 0) override;
  void deal(const Deal&) override;
  i64 epoch() const override;
  PairBatch next() override;
  i64 batches() const;   // of all pairs
  i64 size() const;      // pairs of the set
  i64 labelled() const;  // labels of all of them

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::data
