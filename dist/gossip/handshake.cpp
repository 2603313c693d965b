// The pairing protocol with its clocks.
#include "gossamer/dist/gossip/handshake.h"

#include <algorithm>
#include <cmath>

namespace gossamer::dist {
namespace {

// seconds for the answer to a proposal (host-communication: 200 ms)
constexpr double kLeastAnswer = 0.2, kMostAnswer = 2;
constexpr double kRemind = 2;  // times the limit of an answer, without any change
// A worker waits for another partner than its last one for so many times as long as its exchange
// with that one or its gradient took, whichever is longer: neighbours like itself are free by then.
constexpr double kOthers = 2;
// training waits for this many of its gradients at most: a worker that can't keep up loses
// exchanges, not time
constexpr double kHoldGradients = 1;

std::map<int, double> nobody_yet(int self, int workers) {
  std::map<int, double> peers;
  for (int peer = 0; peer < workers; ++peer)
    if (peer != self) peers[peer] = 0;
  return peers;
}

}  // namespace

HandshakePolicy::HandshakePolicy(int self, int workers, double rate, const std::string& quota,
                                 std::uint64_t seed)
    : self_(self),
      rate_(rate),
      random_(seed, 0x70616972u + static_cast<std::uint64_t>(self)),
      pairing_(self, nobody_yet(self, workers),
               [this](std::span<const double> rates) { return choose(rates); }),
      quota_(quota, seed, 0x676f7373u + static_cast<std::uint64_t>(self)),
      answers_(kLeastAnswer, kMostAnswer, kLeastAnswer) {
  pairing_.open();
}

std::size_t HandshakePolicy::choose(std::span<const double> rates) {
  double total = 0;
  for (const double rate : rates) total += rate;
  double ticket = random_.uniform53() * total;
  for (std::size_t i = 0; i + 1 < rates.size(); ++i)
    if ((ticket -= rates[i]) < 0) return i;
  return rates.size() - 1;
}

void HandshakePolicy::adopt(const Graph& g, const std::vector<bool>& gone) {
  double all = 0, own = 0;
  int alive = 0;
  for (const bool dead : gone) alive += dead ? 0 : 1;
  for (const Edge& e : g.edges) all += e.rate;
  for (int peer = 0; peer < g.n; ++peer) {
    if (peer == self_ || gone[static_cast<std::size_t>(peer)]) continue;
    const double rate = g.rate(self_, peer);
    own += rate;
    pairing_.set_rate(peer, rate);
  }
  quota_.set_share(all > 0 ? rate_ * own * alive / (2 * all) : 0, now_.t);
}

void HandshakePolicy::advance(const Now& now) {
  now_ = now;
  if (!stopped_ && !pairing_.wanting() && quota_.next() <= now.t) {
    wanted_at_ = now.wall;
    pairing_.due();
  }
  if (now.wall >= others_until()) pairing_.meet_anyone();
  const bool proposing = pairing_.state() == Pairing::State::proposing;
  if (proposal_ != 0 && (!proposing || proposal_ != pairing_.session())) {
    answers_.took(now.wall - proposed_at_);
    proposal_ = 0;
  }
  if (proposing && proposal_ == 0) {
    proposal_ = pairing_.session();
    proposed_at_ = now.wall;
  } else if (proposing && now.wall - proposed_at_ > answers_.limit()) {
    answers_.missed();
    proposal_ = 0;
    pairing_.time_out();
  }
  if (pairing_.changes() != changes_) {
    changes_ = pairing_.changes();
    changed_at_ = now.wall;
  } else if (now.wall - changed_at_ > kRemind * answers_.limit()) {
    changed_at_ = now.wall;
    pairing_.remind();
  }
}

// INFINITY: it does not wait for others.
double HandshakePolicy::others_until() const {
  const bool waits = pairing_.state() == Pairing::State::available && pairing_.wanting() &&
                     pairing_.avoided() >= 0;
  return waits ? std::max(ended_at_, wanted_at_) +
                     kOthers * std::max(ended_at_ - began_at_, now_.gradient_s)
               : INFINITY;
}

void HandshakePolicy::stop() {
  stopped_ = true;
  pairing_.stop_wanting();
}

void HandshakePolicy::begun() {
  began_at_ = now_.wall;
  quota_.exchanged(pairing_.initiated());
  // exact quota: being asked has fulfilled the wish
  if (quota_.next() > now_.t) pairing_.stop_wanting();
}

void HandshakePolicy::ended() {
  ended_at_ = now_.wall;
  pairing_.exchange_done();
  pairing_.open();
}

std::optional<Meeting> HandshakePolicy::meeting() const {
  if (pairing_.state() != Pairing::State::exchanging) return std::nullopt;
  return Meeting{pairing_.partner(), pairing_.session(), std::nullopt};
}

bool HandshakePolicy::resting() const {
  return pairing_.state() == Pairing::State::available || pairing_.state() == Pairing::State::idle;
}

Wake HandshakePolicy::wake() const {
  Wake wake;
  wake.wall = others_until();
  if (pairing_.state() == Pairing::State::proposing)
    wake.wall = (proposal_ != 0 ? proposed_at_ : now_.wall) + answers_.limit();
  if (!stopped_ && !pairing_.wanting()) wake.t = quota_.next();
  return wake;
}

Hold HandshakePolicy::hold() const {
  if (stopped_) return {};
  return {quota_.hold_at(), kHoldGradients * now_.gradient_s};
}

}  // namespace gossamer::dist
