// See walk.h.
#include "gossamer/data/loader/walk.h"

#include "gossamer/core/error.h"

namespace gossamer::data {

Position Walk::next(i64 n) const {
  if (deal_) return deal_->batch(dealt_ + n);
  const i64 step = at_.step + n;
  return step < steps_ ? Position{at_.epoch, step} : Position{at_.epoch + 1, 0};
}

void Walk::advance() {
  if (deal_)
    ++dealt_;
  else
    ++at_.step;
}

bool Walk::epoch_is_over() {
  if (!deal_) return at_.epoch_is_over(steps_);
  const i64 before = at_.epoch;
  at_ = deal_->batch(dealt_);
  return at_.epoch != before;
}

void check_deal(const char* source, const EpochOptions& o, i64 steps, const Deal& deal) {
  check<ConfigError>(o.share == Share::parts && o.world == 1, source,
                     ": only the order of one worker in parts can be dealt out");
  check<ConfigError>(deal.batches() == steps, source, ": a deal of ", deal.batches(),
                     " batches an epoch; there are ", steps);
}

}  // namespace gossamer::data
