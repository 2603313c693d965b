// A shuffle by Fisher and Yates.
#include "gossamer/data/loader/epoch_order.h"

#include <numeric>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/data/mix.h"

namespace gossamer::data {

std::vector<i64> epoch_order(i64 size, std::uint64_t seed, i64 epoch, int rank, int world,
                             bool shard, bool shuffle) {
  check<ConfigError>(size >= 0 && size <= 0xffffffffll, "loader: a data set of ", size,
                     " samples; the limit is 4,294,967,295");
  check<ConfigError>(world >= 1 && rank >= 0 && rank < world, "loader: rank ", rank, " of ", world,
                     " workers");
  std::vector<i64> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), i64{0});
  if (shuffle) {
    // Shards are parts of one common order: its key doesn't depend on the rank.
    Rng rng(mix(seed, 0x6f72646572 /* "order" */),
            mix(static_cast<std::uint64_t>(epoch), shard ? 0u : static_cast<std::uint64_t>(rank)));
    for (i64 i = size - 1; i > 0; --i)
      std::swap(order[i], order[rng.below(static_cast<std::uint32_t>(i + 1))]);
  }
  if (!shard || world == 1) return order;
  std::vector<i64> part;
  part.reserve(order.size() / world + 1);
  for (std::size_t i = static_cast<std::size_t>(rank); i < order.size();
       i += static_cast<std::size_t>(world))
    part.push_back(order[i]);
  return part;
}

}  // namespace gossamer::data
