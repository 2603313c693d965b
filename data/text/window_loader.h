// Batches for language models: windows of ids, and for each id the one that follows it.
// Threads: one at a time for a WindowLoader.
#pragma once

#include <cstdint>
#include <memory>

#include "gossamer/core/tensor.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::data {

// As a label: nothing is to be predicted here, so the loss leaves it out.
constexpr std::int32_t kNoLabel = -1;

// Which part of the windows a worker reads.
enum class Share {
  all,        // each worker its own order of all windows, as the theory of A2CiD2 assumes
  windows,    // disjoint parts of one order
  documents,  // disjoint documents: unlike data for the workers
};

struct WindowLoaderOptions {
  i64 batch = 8;    // windows
  i64 length = 64;  // ids of a window
  int rank = 0, world = 1;
  Share share = Share::all;
  // The windows begin at another position in every epoch, and come in another order.
  bool shuffle = true;
  // false (evaluation): the last window may be shorter and the last batch smaller, so that every id
  // but the first of the text is a label exactly once
  bool drop_last = true;
  std::uint64_t seed = 0;
  bool pinned = false;  // page-locked memory, so that copies to a GPU run beside the CPU
};

struct WindowBatch {
  Tensor inputs;     // i32 [N, length]; undefined: the epoch is over
  Tensor labels;     // i32 [N, length]: the next ids, or kNoLabel behind the end of the text
  i64 labelled = 0;  // labels that are ids
};

// A batch is a function of (seed, epoch, rank, position) alone.
class WindowLoader {
 public:
  // DataError: the text does not fill a batch. ConfigError: an option makes no sense.
  WindowLoader(std::shared_ptr<const TokenFiles>, Marks, WindowLoaderOptions);
  ~WindowLoader();
  WindowLoader(const WindowLoader&) = delete;
  WindowLoader& operator=(const WindowLoader&) = delete;

  // Batches of an epoch, for this rank: equal for all ranks with drop_last.
  i64 steps() const;
  // The next batch will be this one. ConfigError if there is no such step.
  void seek(i64 epoch, i64 step = 0);
  i64 epoch() const;
  // After the last batch of an epoch an empty one, once; then the next epoch begins.
  WindowBatch next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::data
