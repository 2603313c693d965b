// Members, progress and the end, one function an event. See roster.h for the rules.
#include "gossamer/dist/gossip/roster.h"

#include <cmath>

#include "gossamer/core/error.h"
#include "gossamer/dist/finish.h"
#include "gossamer/dist/graph/graph.h"

namespace gossamer::dist {
namespace {

// seconds until workers that have all stopped must count the same members
constexpr double kAgreeLimit = 10;
constexpr double kRepeat = 1;  // seconds until a message that everybody must hear is sent again

// `epoch` of back
constexpr std::uint32_t kFresh = 1;        // the sender was started again, with a neighbour's state
constexpr std::uint32_t kMissesYours = 2;  // the sender has not heard the receiver's `back`

}  // namespace

Roster::Roster(int self, int workers, double progress, double stop_limit, int started)
    : self_(self),
      stop_limit_(stop_limit),
      peers_(static_cast<std::size_t>(workers)),
      gone_(static_cast<std::size_t>(workers)),
      alive_(started < 0 ? workers : started),
      progress_(progress) {
  for (auto p = static_cast<std::size_t>(alive_); p < peers_.size(); ++p) {
    gone_[p] = true;
    peers_[p].account.share = 0;  // nobody was there who could have taken anything along
  }
  members_ = name_of_set(gone_);
}

void Roster::start_again(const Count& count, const std::vector<bool>& reached, double now) {
  check(count.accounts.size() == peers_.size() && reached.size() == peers_.size(),
        "Roster: ", count.accounts.size(), " accounts, ", reached.size(), " links, ", peers_.size(),
        " workers");
  progress_ = count.progress;
  set_member(self_, true, count.gradients_of_all);  // in a place that was free it was none
  for (std::size_t p = 0; p < peers_.size(); ++p) peers_[p].account = count.accounts[p];
  Account& own = peer(self_).account;
  // what others have done while this worker was gone
  if (own.share >= 0) own.taken_over += progress_ - own.share;
  own.share = -1;
  for (int p = 0; p < static_cast<int>(peers_.size()); ++p) {
    if (p == self_) continue;
    // a worker lost since the neighbour counted took about as much along as this one has now
    double& share = peer(p).account.share;
    const bool here = reached[static_cast<std::size_t>(p)];
    share = here ? -1 : share < 0 ? progress_ : share;
    set_member(p, here, count.gradients_of_all);
    if (here) say_back(p, now, true);
  }
}

Progress Roster::progress() const {
  return {complete_ ? NAN : progress_, beyond_, static_cast<double>(members_)};
}

void Roster::average(const Progress& own, const Progress& theirs) {
  if (!std::isfinite(own.progress) || !std::isfinite(theirs.progress) ||
      own.members != theirs.members)
    return;
  progress_ -= 0.5 * (own.progress - theirs.progress);
  beyond_ -= 0.5 * (own.beyond - theirs.beyond);
}

Count Roster::count() const {
  Count out{progress_, gradients_of_all(), {}};
  for (const Peer& p : peers_) out.accounts.push_back(p.account);
  return out;
}

// The estimate of what all have done becomes `gradients_of_all`, whoever is counted.
void Roster::set_member(int rank, bool member, double gradients_of_all) {
  auto gone = gone_[static_cast<std::size_t>(rank)];
  alive_ += static_cast<int>(member) - static_cast<int>(!gone);
  gone = !member;
  members_ = name_of_set(gone_);
  beyond_ = gradients_of_all - alive_ * progress_;
}

void Roster::lost(int rank, const std::string& why) {
  Peer& p = peer(rank);
  p.returning = false;
  p.left = false;
  if (!member(rank)) return;
  p.stopped.reset();
  p.account.share = progress_;  // about as large as ours
  set_member(rank, false, gradients_of_all());
  changes_.push_back({Change::Kind::lost, rank, why});
}

void Roster::joined(int rank, double now) {
  peer(rank).returning = !member(rank);
  say_back(rank, now);
}

void Roster::say_back(int to, double now, bool fresh) {
  Message back{.type = MessageType::back};
  back.epoch = (fresh ? kFresh : 0) | (member(to) ? 0 : kMissesYours);
  back.progress = progress_;
  back.value = peer(self_).account.taken_over;
  outbox_.emplace_back(to, back);
  peer(to).said_back_at = now;
}

void Roster::receive(int from, const Message& m, double now) {
  switch (m.type) {
    case MessageType::back:
      return heard_back(from, m, now);
    case MessageType::bye:
      if (m.epoch == 0) return lost(from, "left");
      peer(from).left = member(from);
      changes_.push_back({Change::Kind::left, from});
      return;
    case MessageType::stopped: {
      Peer& p = peer(from);
      if (!member(from)) return;  // from before it was lost
      if (!p.stopped) changes_.push_back({Change::Kind::stopped, from});
      p.stopped = m.epoch;
      return;
    }
    default:
      return;
  }
}

// The estimate of what all have done grows by what the returning worker did while it was away: by
// what its q has grown, without what it took over when it was started again. That was done by its
// neighbour, who is a member itself or will come back too.
void Roster::heard_back(int from, const Message& back, double now) {
  Peer& p = peer(from);
  const bool misses_us = back.epoch & kMissesYours;
  const double taken_over = std::exchange(p.account.taken_over, back.value) - back.value;
  p.returning = false;
  if (!member(from)) {
    const double share = std::exchange(p.account.share, -1);
    const double meanwhile = back.epoch & kFresh ? 0 : back.progress - share + taken_over;
    p.stopped.reset();
    set_member(from, true, gradients_of_all() + meanwhile);
    changes_.push_back({Change::Kind::returned, from});
  } else if (misses_us) {
    changes_.push_back({Change::Kind::reset, from});
  }
  if (misses_us) say_back(from, now);
}

void Roster::stop(double now) {
  if (stopping()) return;
  stop_since_ = now;
  say_stopped(now);
}

void Roster::say_stopped(double now) {
  said_stopped_at_ = now;
  said_members_ = members_;
  for (int p = 0; p < static_cast<int>(peers_.size()); ++p)
    if (p != self_ && member(p))
      outbox_.emplace_back(p, Message{.type = MessageType::stopped, .epoch = members_});
}

void Roster::advance(double now) {
  for (int p = 0; p < static_cast<int>(peers_.size()); ++p)
    if (peer(p).returning && now - peer(p).said_back_at > kRepeat) say_back(p, now);
  if (stopping() && (said_members_ != members_ || now - said_stopped_at_ >= kRepeat))
    say_stopped(now);
}

std::vector<int> Roster::training() const {
  std::vector<int> out;
  for (int p = 0; p < static_cast<int>(peers_.size()); ++p)
    if (const Peer& other = peers_[static_cast<std::size_t>(p)];
        p != self_ && member(p) && !other.stopped && !other.left)
      out.push_back(p);
  return out;
}

bool Roster::ended(double now) {
  if (!stopping()) return false;
  const std::vector<int> late = training();
  check<DistError>(late.empty() || now - *stop_since_ < stop_limit_,
                   unfinished(self_, late, stop_limit_));
  bool same = said_members_ == members_;
  for (int p = 0; p < static_cast<int>(peers_.size()); ++p)
    same &= p == self_ || peer(p).left ||
            (member(p) ? peer(p).stopped == members_ : !peer(p).returning);
  if (!late.empty() || same)
    differ_since_.reset();
  else if (!differ_since_)
    differ_since_ = now;
  return late.empty() && (same || now - *differ_since_ > kAgreeLimit);
}

std::vector<std::uint32_t> Roster::fingerprint() const {
  std::vector<std::uint32_t> out = {members_, said_members_, stopping()};
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    out.push_back(gone_[p] | peers_[p].returning << 1 | peers_[p].stopped.has_value() << 2 |
                  peers_[p].left << 3);
    out.push_back(peers_[p].stopped.value_or(0));
  }
  return out;
}

}  // namespace gossamer::dist
