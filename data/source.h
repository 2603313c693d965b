// The interface of what gives batches: pictures (loader.h), windows of text (text/window_loader.h),
// pairs of sentences (text/pair_loader.h). All divide their epochs among workers in the same way.
#pragma once

#include <cstdint>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

// Which samples of an epoch a worker reads.
enum class Share {
  all,        // each worker its own order of all samples, as the theory of A2CiD2 assumes
  parts,      // disjoint parts of one order
  documents,  // windows of text: disjoint documents, so the workers' data are non-IID
};

struct EpochOptions {
  int rank = 0, world = 1;
  Share share = Share::all;
  bool shuffle = true;
  // What does not fill a batch is left out, so that with Share::parts all workers have the same
  // number of batches.
  bool drop_last = true;
  std::uint64_t seed = 0;
};
// For evaluation: a part of all samples in their order, each of them once.
inline EpochOptions in_order(int part, int parts) {
  return {
      .rank = part, .world = parts, .share = Share::parts, .shuffle = false, .drop_last = false};
}

class Deal;  // loader/deal.h

// A batch is a function of (seed, epoch, rank, step) alone.
// Threads: one at a time calls next and seek.
template <class Batch>
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  virtual i64 steps() const = 0;  // batches of an epoch, for this worker
  virtual i64 epoch() const = 0;  // of the next batch
  // The next batch will be this one. ConfigError if there is no such step.
  virtual void seek(i64 epoch, i64 step = 0) = 0;
  // The next batches are those that a deal gives this worker, with an empty one wherever the epoch
  // changes between two; seek() ends that. The source has the whole order: it is of one worker, in
  // Share::parts. ConfigError if not, or if the deal is of epochs of another length.
  virtual void deal(const Deal&) = 0;
  // After the last batch of an epoch an empty one, once; then the next epoch begins.
  virtual Batch next() = 0;

 protected:
  BatchSource() = default;
};

}  // namespace gossamer::data
