// The order in which a worker reads its data set.
#pragma once

#include <cstdint>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

// The order of one worker's epoch: a pure function of its arguments, so that nothing has to be
// saved to resume in the middle. Every index appears exactly once over an epoch (shard: over all
// ranks). ConfigError above 2^32 - 1 samples.
std::vector<i64> epoch_order(i64 size, std::uint64_t seed, i64 epoch, int rank, int world,
                             bool shard, bool shuffle);

}  // namespace gossamer::data
