// What all sources of batches know of an epoch: which samples a worker reads in which order, and
// where it stands.
#pragma once

#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/data/loader/deal.h"
#include "gossamer/data/source.h"

namespace gossamer::data {

// source: its name in errors. ConfigError: there is no such worker, or documents are to be shared
// out and the source has none.
void check_epoch_options(const char* source, const EpochOptions&, bool has_documents = false);

// How many of `total` samples, or batches, a worker reads in an epoch.
i64 number_of_share(i64 total, const EpochOptions&);

// The batches of that many samples. A last one that is not full counts unless it is left out.
inline i64 batches_of(i64 samples, i64 batch, const EpochOptions& o) {
  return o.drop_last ? samples / batch : (samples + batch - 1) / batch;
}

// Those that it reads: a pure function of its arguments, so that nothing has to be saved to resume
// in the middle. Every index appears exactly once over an epoch (Share::parts: over all ranks).
// ConfigError above 2^32 - 1 samples.
std::vector<i64> epoch_order(i64 total, const EpochOptions&, i64 epoch);

// ConfigError if an epoch of `steps` batches has no such step.
void check_seek(const char* source, const Position& to, i64 steps);

}  // namespace gossamer::data
