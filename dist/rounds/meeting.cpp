// All workers of rounds meet: to begin anew after a death or for one that comes, for a sum, or at
// the end.
#include <algorithm>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/rounds/synchronous.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

constexpr double kPurposes = 8;  // more than there are of Purpose

}  // namespace

void SynchronousMethod::say_stopped(bool finishing) {
  Message stopped{.type = MessageType::stopped};
  stopped.value = finishing ? 1 : 0;
  stopped.epoch = epoch_;
  stopped.nonce = static_cast<std::uint32_t>(next_);
  tell_all(stopped);
}

// What both sides have begun is brought to its end, so that both or none of them use it.
void SynchronousMethod::complete_flights() {
  for (int slot = 0; slot < slots(); ++slot)
    if (exchange_.pending(slot)) exchange_.complete(slot);
}

void SynchronousMethod::restart_if_needed() {
  if (restart_) meet(Purpose::restart, [](Collectives&) {});
}

bool SynchronousMethod::meet(Purpose purpose, FunctionRef<void(Collectives&)> work, int tag,
                             Seconds patience) {
  const trace::Scope scope("meet", static_cast<i64>(purpose));
  membership_.check_taking_part();
  const double began = wall_seconds(), waited = exchange_.waited();
  // Who says that it has stopped goes on in new rounds only, whatever all have come for.
  const bool stops = restart_ && purpose != Purpose::finish;
  if (restart_ || purpose == Purpose::finish) {
    say_stopped(purpose == Purpose::finish);
    complete_flights();
    if (purpose == Purpose::finish) mix_pending();
  }
  const auto n = static_cast<std::size_t>(group_.size()),
             me = static_cast<std::size_t>(group_.rank());
  // purpose (0: not here), epoch, samples, 1 of who begins anew, 1 of who has no state; behind
  // them, who has asked to join, and with a global batch what each has heard of all
  constexpr std::size_t kColumns = 5;
  Sharing::Change change;
  if (!heard_.empty()) heard_[me] = static_cast<double>(shared_);
  bool same = false, some_stop = false, finishing = false;
  Lives known_to_all;  // of those that want to join
  std::set<int> without_state;
  double epoch = 0, samples = 0;
  membership_.run(
      [&](Collectives& all) {
        std::vector<double> table(n * (kColumns + Newcomers::kColumns + heard_.size()), 0.0);
        const std::span<double> asking =
            std::span(table).subspan(n * kColumns, n * Newcomers::kColumns);
        const double mine = static_cast<double>(purpose) + kPurposes * tag;
        table[me * kColumns] = mine;
        table[me * kColumns + 1] = static_cast<double>(epoch_);
        table[me * kColumns + 2] = has_state_ ? samples_ : 0;
        table[me * kColumns + 3] = stops ? 1 : 0;
        table[me * kColumns + 4] = has_state_ ? 0 : 1;
        newcomers_.write(asking);
        const std::span<double> all_heard =
            std::span(table).subspan(n * (kColumns + Newcomers::kColumns));
        if (has_state_) std::ranges::copy(heard_, all_heard.begin() + me * heard_.size());
        if (group_.size() > 1) all.all_reduce_sum(table, patience);
        same = true, some_stop = false;
        training_.clear();
        finishing = false;
        double sum = 0, most = 0;
        without_state.clear();
        int root = -1;
        epoch = 0;
        for (std::size_t w = 0; w < n; ++w) {
          const double theirs = table[w * kColumns];
          same = same && (theirs == 0 || theirs == mine);
          const bool finishes = theirs == static_cast<double>(Purpose::finish);
          finishing = finishing || finishes;
          if (theirs != 0 && !finishes) training_.push_back(static_cast<int>(w));
          epoch = std::max(epoch, table[w * kColumns + 1]);
          most = std::max(most, table[w * kColumns + 2]);
          sum += table[w * kColumns + 2];
          some_stop = some_stop || table[w * kColumns + 3] != 0;
          if (table[w * kColumns + 4] != 0)
            without_state.insert(static_cast<int>(w));
          else if (theirs != 0 && root < 0)
            root = static_cast<int>(w);
        }
        check<DistError>(root >= 0, "worker ", group_.rank(),
                         ": all have gone that had a state to give");
        // Each counted its own steps for all. If someone is done, all are: it will not go on.
        samples = finishing ? most : sum / (all.members() - std::ssize(without_state));
        const bool too_late = finishing || !without_state.empty();
        known_to_all = too_late ? Lives() : Newcomers::heard_by_all(asking, all.members());
        change = {sharing_.workers, {}};
        for (const int worker : sharing_.workers) {
          double steps = 0;
          for (std::size_t w = 0; w < n && !heard_.empty(); ++w)
            steps = std::max(steps, all_heard[w * n + static_cast<std::size_t>(worker)]);
          change.done.push_back(static_cast<i64>(std::min(steps, kMostSteps)));
        }
        if (!without_state.empty()) {
          same = false;
          share_state(all, root);
          if (!heard_.empty()) share_note(all, root, change);
        }
        if (same) work(all);
      },
      patience);
  const std::vector<int> now = membership_.members();
  const bool anew = !same || some_stop || now != members_ || !known_to_all.empty();
  // One that some cannot reach must not begin rounds anew for ever.
  if (newcomers_.waiting() && known_to_all.empty()) {
    next_try_ = wall_seconds() + until_next_try_;
    until_next_try_ *= 2;
  } else {
    until_next_try_ = kFirstTry_s;
  }
  if (anew) {
    for (const int m : members_)
      if (std::ranges::find(now, m) == now.end()) lose(m, "dead");
    for (const int m : now) {
      const bool new_here = std::ranges::find(members_, m) == members_.end();
      if (new_here && (has_state_ || without_state.contains(m)) && options_.on_fault)
        options_.on_fault("joined", m);
      newcomers_.gone(m);  // what it has asked since it was admitted
    }
    members_ = now;
    epoch_ = static_cast<std::uint32_t>(epoch) + 1;
    samples_ = samples;
    next_ = 0;
    gone_.clear();
    stopped_.clear();
    restart_ = false;
    if (!std::exchange(has_state_, true)) params_.refresh();
    adopt_members();
    k_ = shared_ = 0;
    ++restarts_;
    if (!heard_.empty()) {
      samples_at_change_ += samples_of(change.done);
      if (!finishing) samples_ = samples_at_change_;
      sharing_.changes.push_back(change);
      sharing_.known.assign(members_.size(), 0);
      std::ranges::fill(heard_, 0.0);
    }
    sharing_.workers = members_;
    begin_anew();
  }
  for (std::size_t i = 0; !anew && !heard_.empty() && i < change.done.size(); ++i)
    hear_steps(sharing_.workers[i], static_cast<double>(change.done[i]));
  stats_.exposed_s += wall_seconds() - began - (exchange_.waited() - waited);
  if (!known_to_all.empty()) let_in(known_to_all);
  return same;
}

}  // namespace gossamer::dist
