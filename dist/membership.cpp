// Collectives over the living.
#include "gossamer/dist/membership.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "gossamer/core/error.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {
// a failed collective is often noticed before the death behind it
constexpr int kGraceMs = 4000, kPollMs = 5;
}  // namespace

Membership::Membership(Group& group, int min_workers, Lost lost)
    : group_(group),
      min_workers_(min_workers),
      lost_(lost),
      admitted_(arrivals()),
      built_at_(admitted_) {
  // Who has come to a free place is no member yet, not even where all begin.
  std::fill(admitted_.begin() + group.started(), admitted_.end(), 0);
  if (group.collectives().members() != group.started()) return;
  built_for_.resize(static_cast<std::size_t>(group.started()));
  std::iota(built_for_.begin(), built_for_.end(), 0);
}

void Membership::joined(int rank, std::uint64_t arrival) {
  left_.erase(rank);
  taken_back_.insert(rank);
  admitted_.at(static_cast<std::size_t>(rank)) = arrival != 0 ? arrival : group_.arrivals(rank);
}

void Membership::outside() {
  std::ranges::fill(admitted_, 0);
  built_for_.clear();
}

std::vector<std::uint64_t> Membership::arrivals() const {
  std::vector<std::uint64_t> out(static_cast<std::size_t>(group_.size()));
  for (int rank = 0; rank < group_.size(); ++rank)
    if (rank != group_.rank()) out[static_cast<std::size_t>(rank)] = group_.arrivals(rank);
  return out;
}

std::vector<int> Membership::alive() const {
  std::vector<int> out;
  for (const int rank : group_.alive()) {
    const bool admitted =
        rank == group_.rank() || admitted_[static_cast<std::size_t>(rank)] == group_.arrivals(rank);
    if (admitted && !left_.contains(rank)) out.push_back(rank);
  }
  return out;
}

void Membership::hear(const Event& e) {
  if (lost_ == Lost::may_return) return;
  check_taking_part();  // who was given up has no say any more
  const std::vector<int> with = alive();
  const bool stranger = e.peer >= 0 && std::ranges::find(with, e.peer) == with.end();
  if (stranger && e.kind == Event::Kind::joined) {
    Message back{.type = MessageType::back};
    back.value = static_cast<double>(with.size());
    back.gradients = with.front();
    group_.control().send(e.peer, back);
  }
  if (stranger && e.kind == Event::Kind::message && e.message.type == MessageType::back) {
    const auto theirs = std::pair(e.message.value, -e.message.gradients),
               ours =
                   std::pair(static_cast<double>(with.size()), -static_cast<double>(with.front()));
    if (theirs > ours && out_.empty())
      out_ = "the connection was lost for a while, and worker " + std::to_string(e.peer) + " (of " +
             std::to_string(static_cast<int>(theirs.first)) + " that went on together)";
  }
  check_taking_part();
}

std::string Membership::given_up() const {
  const bool may_return = lost_ == Lost::may_return;
  if (may_return && 2 * std::ssize(built_for_) > group_.size()) return {};
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank() ||
        (may_return &&
         (taken_back_.contains(rank) || std::ranges::find(built_for_, rank) != built_for_.end())))
      continue;
    if (const std::string why = group_.given_up_by(rank); !why.empty())
      return why + ", and worker " + std::to_string(rank);
  }
  return {};
}

void Membership::check_taking_part() const {
  if (lost_ == Lost::may_return) return;
  const std::string who = out_.empty() ? given_up() : out_;
  check<GivenUp>(who.empty(), "worker ", group_.rank(), ": ", who,
                 " has given this worker up; the others go on without it, and its model is no "
                 "longer part of theirs. Start all again, with a longer dead_after_s if workers "
                 "may stand still for so long");
}

void Membership::run(FunctionRef<void(Collectives&)> op, Seconds patience) {
  const Seconds limit = std::max(patience, group_.collective_limit());
  const double until = wall_seconds() + limit.count();
  for (bool again = false;; again = true) {
    check_taking_part();
    const std::vector<std::uint64_t> came = arrivals();
    const std::vector<int> members = alive();
    const int count = static_cast<int>(members.size());
    broken_ = broken_ || count < min_workers_;
    check<DistError>(count >= min_workers_, "worker ", group_.rank(), ": only ", count, " of ",
                     group_.size(), " workers are alive, at least ", min_workers_,
                     " are wanted; if there is a checkpoint, resume from it");
    check<GivenUp>(std::ranges::find(members, group_.rank()) != members.end(), "worker ",
                   group_.rank(),
                   ": the others have given this worker up; it can't go on with them");
    const auto changed = [&] {
      if (listen_) listen_();
      return alive() != members || arrivals() != came;
    };
    try {
      const auto came_again = [&](int m) {
        return came[static_cast<std::size_t>(m)] != built_at_[static_cast<std::size_t>(m)];
      };
      if (broken_ || members != built_for_ || std::ranges::any_of(members, came_again)) {
        // Who gives up waiting leaves. That must not begin the wait of the others anew.
        const double left =
            again ? std::max(until - wall_seconds(), kGraceMs / 1e3) : limit.count();
        // a set may come again: the transport tells one rebuild from another
        group_.rebuild(members, 0, Seconds(left));
        built_for_ = members;
        built_at_ = came;
        broken_ = false;
        ++rebuilds_;
      }
      op(group_.collectives());
      return;
    } catch (const MembersChanged&) {
      broken_ = true;
      if (wall_seconds() > until) throw;
      if (listen_) listen_();
    } catch (const DistTimeout&) {
      broken_ = true;
      if (!changed()) throw;
    } catch (const DistError&) {
      broken_ = true;
      for (int waited = 0; !changed() && waited < kGraceMs; waited += kPollMs)
        std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
      if (!changed()) throw;
    }
  }
}

}  // namespace gossamer::dist
