// A shuffle by Fisher and Yates.
#include "gossamer/data/loader/epoch.h"

#include <numeric>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/core/share.h"
#include "gossamer/data/mix.h"

namespace gossamer::data {

void check_epoch_options(const char* source, const EpochOptions& o, bool has_documents) {
  check<ConfigError>(o.world >= 1 && o.rank >= 0 && o.rank < o.world, source, ": rank ", o.rank,
                     " of ", o.world, " workers");
  check<ConfigError>(has_documents || o.share != Share::documents, source,
                     ": has no documents to share out; use all or parts");
}

i64 number_of_share(i64 total, const EpochOptions& o) {
  if (o.share != Share::parts) return total;
  return o.drop_last ? total / o.world : share_of(total, o.rank, o.world);
}

std::vector<i64> epoch_order(i64 total, const EpochOptions& o, i64 epoch) {
  check<ConfigError>(total >= 0 && total <= 0xffffffffll, "loader: a data set of ", total,
                     " samples; the limit is 4,294,967,295");
  const bool parts = o.share == Share::parts;
  std::vector<i64> order(static_cast<std::size_t>(total));
  std::iota(order.begin(), order.end(), i64{0});
  if (o.shuffle) {
    // Parts are of one common order: its key doesn't depend on the rank.
    Rng rng(
        mix(o.seed, 0x6f72646572 /* "order" */),
        mix(static_cast<std::uint64_t>(epoch), parts ? 0u : static_cast<std::uint64_t>(o.rank)));
    for (i64 i = total - 1; i > 0; --i)
      std::swap(order[i], order[rng.below(static_cast<std::uint32_t>(i + 1))]);
  }
  if (!parts || o.world == 1) return order;
  std::vector<i64> part;
  part.reserve(order.size() / o.world + 1);
  for (std::size_t i = static_cast<std::size_t>(o.rank); i < order.size();
       i += static_cast<std::size_t>(o.world))
    part.push_back(order[i]);
  return part;
}

void check_seek(const char* source, const Position& to, i64 steps) {
  check<ConfigError>(to.epoch >= 0 && to.step >= 0 && to.step <= steps, source, ": seek to epoch ",
                     to.epoch, ", step ", to.step, "; an epoch has ", steps, " steps");
}

}  // namespace gossamer::data
