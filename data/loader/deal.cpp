// See deal.h.
#include "gossamer/data/loader/deal.h"

#include <algorithm>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/share.h"

namespace gossamer::data {

Deal::Deal(Dealt from, i64 batches, i64 batches_of_step, int place, int workers)
    : from_(std::move(from)),
      batches_(batches),
      of_step_(batches_of_step),
      place_(place),
      workers_(workers) {
  check<ConfigError>(workers >= 1 && place >= 0 && place < workers, "deal: place ", place, " of ",
                     workers, " workers");
  check<ConfigError>(batches >= 1 && batches_of_step >= 1, "deal: steps of ", batches_of_step,
                     " batches, in epochs of ", batches);
  own_ = share_of(of_step_, place, workers);
  const auto exists = [&](const Position& p) {
    return p.epoch >= 0 && p.step >= 0 && p.step < batches_;
  };
  from_.next.epoch_is_over(batches_);
  check<ConfigError>(exists(from_.next) && std::ranges::all_of(from_.again, exists), "deal: epoch ",
                     from_.next.epoch, ", batch ", from_.next.step, " is to come, and ",
                     from_.again.size(), " again; an epoch has batches 0 to ", batches_ - 1);
}

Position Deal::entry(i64 i) const {
  const auto again = std::ssize(from_.again);
  if (i < again) return from_.again[static_cast<std::size_t>(i)];
  const i64 step = from_.next.step + i - again;
  return {from_.next.epoch + step / batches_, step % batches_};
}

Position Deal::batch(i64 j) const {
  check<Error>(own_ > 0, "deal: place ", place_, " of ", workers_, " gets none of ", of_step_);
  return entry(j / own_ * of_step_ + place_ + j % own_ * workers_);
}

Dealt Deal::after(i64 steps) const {
  const i64 done = steps * of_step_;
  Dealt left{.next = entry(std::max<i64>(done, std::ssize(from_.again))), .again = {}};
  if (done < std::ssize(from_.again))
    left.again.assign(from_.again.begin() + done, from_.again.end());
  return left;
}

Dealt Deal::after(std::span<const i64> steps) const {
  check<ConfigError>(std::ssize(steps) == workers_, "deal: steps of ", steps.size(), " of ",
                     workers_, " workers");
  const i64 most = std::ranges::max(steps);
  Dealt left = after(most);
  std::vector<Position> missing;
  for (i64 i = std::ranges::min(steps) * of_step_; i < most * of_step_; ++i)
    if (steps[static_cast<std::size_t>(i % of_step_ % workers_)] <= i / of_step_)
      missing.push_back(entry(i));
  left.again.insert(left.again.begin(), missing.begin(), missing.end());
  return left;
}

}  // namespace gossamer::data
