// See dealing.h.
#include "gossamer/apps/train/dealing.h"

#include <algorithm>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/share.h"

namespace gossamer::apps {

Dealing::Dealing(Options options, const dist::Method& method)
    : o_(std::move(options)), method_(method) {
  data::Dealt from = o_.from;
  for (const dist::Sharing::Change& change : method.sharing().changes)
    from = deal_of(std::move(from), 0, change.done.size()).after(change.done);
  deal(std::move(from));
}

data::Deal Dealing::deal_of(data::Dealt from, int place, std::size_t workers) const {
  return {std::move(from), o_.batches_of_epoch, o_.batches_of_step, place,
          static_cast<int>(workers)};
}

void Dealing::deal(data::Dealt from) {
  const dist::Sharing& now = method_.sharing();
  const auto place = std::ranges::find(now.workers, o_.rank) - now.workers.begin();
  deal_ = deal_of(std::move(from), static_cast<int>(place), now.workers.size());
  changes_ = now.changes.size();
  taken_ = 0;
  o_.deal(*deal_);
}

Dealing::Changed Dealing::after_changes() const {
  const dist::Sharing& now = method_.sharing();
  Changed out{.left = deal_->from(), .again = 0};
  for (std::size_t i = changes_; i < now.changes.size(); ++i) {
    const auto& [workers, done] = now.changes[i];
    const std::vector<int>& then =
        i + 1 < now.changes.size() ? now.changes[i + 1].workers : now.workers;
    out.left = deal_of(std::move(out.left), 0, workers.size()).after(done);
    for (std::size_t place = 0; place < workers.size(); ++place)
      if (std::ranges::find(then, workers[place]) == then.end())
        out.again += (std::ranges::max(done) - done[place]) *
                     share_of(o_.batches_of_step, static_cast<i64>(place), std::ssize(workers));
  }
  return out;
}

data::Position Dealing::left() const {
  const data::Deal deal = deal_of(begin(), 0, static_cast<std::size_t>(std::ssize(known())));
  return deal.after(known()).next;
}

std::optional<i64> Dealing::after_step() {
  if (method_.sharing().changes.size() == changes_) return std::nullopt;
  Changed now = after_changes();
  deal(std::move(now.left));
  return now.again;
}

std::vector<double> to_numbers(const data::Dealt& dealt) {
  std::vector<double> out;
  const auto add = [&](const data::Position& p) {
    out.push_back(static_cast<double>(p.epoch));
    out.push_back(static_cast<double>(p.step));
  };
  add(dealt.next);
  std::ranges::for_each(dealt.again, add);
  return out;
}

data::Dealt dealt_from(const std::vector<double>& numbers) {
  check<ConfigError>(numbers.size() >= 2 && numbers.size() % 2 == 0 &&
                         std::ranges::all_of(numbers, [](double x) { return x >= 0 && x < 1e15; }),
                     "the place in the data that another worker says is none: ", numbers.size(),
                     " numbers");
  std::vector<data::Position> all;
  for (std::size_t i = 0; i < numbers.size(); i += 2)
    all.push_back({static_cast<i64>(numbers[i]), static_cast<i64>(numbers[i + 1])});
  return {.next = all[0], .again = {all.begin() + 1, all.end()}};
}

}  // namespace gossamer::apps
