// The pairing protocol, one function per event. See pairing.h for why it can't deadlock.
#include "gossamer/dist/gossip/pairing.h"

#include <algorithm>
#include <cmath>

namespace gossamer::dist {

// Symmetric scaling of the matrix with ones off its diagonal to row sums of `rates` (Sinkhorn and
// Knopp 1967; the square root keeps it from swinging).
std::vector<double> unrepeated(std::span<const double> rates) {
  constexpr int kMostSweeps = 50;
  constexpr double kEqual = 1e-4;
  std::vector<double> w(rates.begin(), rates.end());
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double sum = 0, off = 0;
    for (const double each : w) sum += each;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double scale = std::sqrt(rates[i] / (w[i] * (sum - w[i])));
      off = std::max(off, std::fabs(scale - 1));
      w[i] *= scale;
    }
    if (off < kEqual) break;
  }
  return w;
}

Pairing::Pairing(int self, const std::map<int, double>& peers, Choose choose)
    : self_(self), choose_(std::move(choose)) {
  for (const auto& [peer, rate] : peers)
    if (peer != self) peers_[peer].rate = rate;
}

void Pairing::send(int peer, MessageType type, std::uint32_t epoch, std::uint32_t nonce) {
  Message message;
  message.type = type;
  message.epoch = epoch;
  message.nonce = nonce;
  outbox_.emplace_back(peer, message);
}

void Pairing::announce(int peer) {
  send(peer, MessageType::avail, epoch_, peers_[peer].asked ? 1 : 0);
}

void Pairing::open() {
  if (state_ != State::idle) return;
  set(epoch_, epoch_ + 1);
  set(state_, State::available);
  for (auto& [id, peer] : peers_) {
    peer.asked = peer.refused = false;
    if (id < self_ && peer.alive && peer.rate > 0) announce(id);
  }
  act();
}

void Pairing::due() {
  set(wants_, true);
  if (state_ == State::available) act();
}

void Pairing::stop_wanting() { set(wants_, false); }

// In this order: answer a deferred proposal, propose to a peer that asks, start an exchange.
void Pairing::act() {
  set(state_, State::available);
  set(partner_, -1);
  if (!deferred_.empty()) {
    const Deferred first = deferred_.front();
    deferred_.erase(deferred_.begin());
    ++changes_;
    accept(first.peer, first.nonce);
    return;
  }
  for (auto& [id, peer] : peers_)
    if (peer.alive && peer.avail && peer.asks) return propose(id, false);
  if (wants_) initiate();
}

int Pairing::avoided() const {
  const auto last = peers_.find(last_);
  if (anyone_ || last == peers_.end()) return -1;
  double others = 0;
  for (const auto& [id, peer] : peers_)
    if (id != last_ && peer.alive) others += peer.rate;
  return others > 0 && others >= last->second.rate ? last_ : -1;
}

void Pairing::meet_anyone() {
  set(anyone_, true);
  if (state_ == State::available) act();
}

void Pairing::initiate() {
  const int avoid = avoided();
  std::vector<int> ids;
  std::vector<double> rates;
  for (auto& [id, peer] : peers_) {
    if (!peer.alive || peer.rate <= 0) continue;
    if (id < self_ && peer.asked && !peer.refused) return;  // its answer is on the way
    ids.push_back(id), rates.push_back(peer.rate);
  }
  if (avoid >= 0) rates = unrepeated(rates);
  std::size_t free = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Peer& peer = peers_[ids[i]];
    if (ids[i] == avoid || !(ids[i] > self_ ? peer.avail : !peer.asked)) continue;
    ids[free] = ids[i], rates[free] = rates[i];
    ++free;
  }
  if (free == 0) return;
  const int id = ids[choose_(std::span(rates).first(free))];
  if (id > self_) {
    propose(id, true);
  } else {
    set(peers_[id].asked, true);
    announce(id);
  }
}

void Pairing::propose(int peer, bool own_want) {
  ++changes_;
  state_ = State::proposing;
  partner_ = peer;
  own_want_ = own_want;
  nonce_ = ++next_nonce_;
  proposed_epoch_ = peers_[peer].avail_epoch;
  send(peer, MessageType::propose, proposed_epoch_, nonce_);
}

void Pairing::accept(int peer, std::uint32_t nonce) {
  ++changes_;
  state_ = State::accepted;
  partner_ = peer;
  nonce_ = nonce;
  own_want_ = wants_ && peers_[peer].asked;
  send(peer, MessageType::accept, epoch_, nonce);
}

void Pairing::begin_exchange() {
  ++changes_;
  state_ = State::exchanging;
  initiated_ = own_want_;
  if (initiated_) wants_ = false;
  for (const Deferred& d : deferred_) send(d.peer, MessageType::decline, epoch_, d.nonce);
  deferred_.clear();
}

void Pairing::exchange_done() {
  if (state_ != State::exchanging) return;
  ++changes_;
  state_ = State::idle;
  anyone_ = anyone_ && partner_ == last_;
  last_ = std::exchange(partner_, -1);
}

void Pairing::receive(int id, const Message& m) {
  const auto found = peers_.find(id);
  // late words of someone declared dead
  if (found == peers_.end() || !found->second.alive) return;
  Peer& peer = found->second;
  switch (m.type) {
    case MessageType::avail:
      return on_avail(id, m);
    case MessageType::propose:
      return on_propose(id, m);
    case MessageType::accept:
      if (state_ == State::proposing && partner_ == id && nonce_ == m.nonce) {
        peer.avail = peer.asks = false;
        send(id, MessageType::commit, m.epoch, m.nonce);
        begin_exchange();
      } else {
        const bool begun =
            // it was reminded: COMMIT is late
            state_ == State::exchanging && partner_ == id && nonce_ == m.nonce && id > self_;
        send(id, begun ? MessageType::commit : MessageType::cancel, m.epoch, m.nonce);
      }
      return;
    case MessageType::commit:
      if (state_ == State::accepted && partner_ == id && nonce_ == m.nonce) begin_exchange();
      return;
    case MessageType::cancel:
      if (state_ == State::accepted && partner_ == id && nonce_ == m.nonce) {
        // it gave up on an availability that still stands: without this word it would never propose
        // again
        announce(id);
        act();
      } else {
        changes_ += std::erase_if(
            deferred_, [&](const Deferred& d) { return d.peer == id && d.nonce == m.nonce; });
      }
      return;
    case MessageType::decline:
      return on_decline(id, m);
    default:
      return;
  }
}

void Pairing::on_avail(int id, const Message& m) {
  // only higher ids say AVAIL to us
  if (id < self_) return;
  Peer& peer = peers_[id];
  set(peer.asks, m.nonce == 1 || (peer.asks && peer.avail && peer.avail_epoch == m.epoch));
  set(peer.avail, true);
  set(peer.avail_epoch, m.epoch);
  if (state_ == State::available)
    act();
  else if (m.nonce == 1 && !(state_ == State::proposing && partner_ == id))
    send(id, MessageType::decline, m.epoch, 0);  // busy; not forgotten
}

void Pairing::on_propose(int id, const Message& m) {
  const bool fits = m.epoch == epoch_ && id < self_;
  if (!fits || state_ == State::idle || state_ == State::exchanging)
    send(id, MessageType::decline, m.epoch, m.nonce);
  else if (state_ == State::available)
    accept(id, m.nonce);
  else
    ++changes_, deferred_.push_back({id, m.nonce});
}

// nonce 0: the lower neighbour we asked is busy. Otherwise the answer to our proposal.
void Pairing::on_decline(int id, const Message& m) {
  Peer& peer = peers_[id];
  if (m.nonce == 0) {
    if (m.epoch != epoch_) return;
    set(peer.refused, true);
    if (state_ == State::available) act();
    return;
  }
  if (state_ != State::proposing || partner_ != id || nonce_ != m.nonce) return;
  if (peer.avail_epoch == proposed_epoch_) peer.avail = peer.asks = false;
  act();
}

// Only the availability that was proposed to is forgotten: a fresher one may have come meanwhile.
void Pairing::time_out() {
  if (state_ != State::proposing) return;
  Peer& peer = peers_[partner_];
  if (peer.avail_epoch == proposed_epoch_) peer.avail = peer.asks = false;
  act();
}

void Pairing::remind() {
  if (state_ == State::accepted) {
    send(partner_, MessageType::accept, epoch_, nonce_);
  } else if (state_ == State::available) {
    for (auto& [id, peer] : peers_)
      if (id < self_ && peer.alive && peer.rate > 0) announce(id);
  }
}

void Pairing::peer_dead(int id) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || !found->second.alive) return;
  ++changes_;
  found->second = {};
  found->second.alive = false;
  std::erase_if(deferred_, [&](const Deferred& d) { return d.peer == id; });
  const bool waiting_for_it =
      partner_ == id && (state_ == State::proposing || state_ == State::accepted);
  // an exchange with it ends through its payload
  if (waiting_for_it || state_ == State::available) act();
}

void Pairing::peer_joined(int id) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || found->second.alive) return;
  ++changes_;
  found->second = {};
}

void Pairing::set_rate(int id, double rate) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || !found->second.alive) return;
  const bool fresh = found->second.rate <= 0 && rate > 0;
  found->second.rate = rate;
  const bool open = state_ != State::idle && state_ != State::exchanging;
  if (fresh && id < self_ && open) announce(id);
  if (state_ == State::available) act();
}

std::vector<std::uint32_t> Pairing::fingerprint() const {
  std::vector<std::uint32_t> out = {static_cast<std::uint32_t>(state_),
                                    wants_,
                                    own_want_,
                                    static_cast<std::uint32_t>(partner_ + 1),
                                    static_cast<std::uint32_t>(last_ + 1),
                                    epoch_,
                                    nonce_,
                                    next_nonce_,
                                    proposed_epoch_};
  for (const auto& [id, p] : peers_) {
    out.push_back(p.alive | p.avail << 1 | p.asks << 2 | p.asked << 3 | p.refused << 4);
    out.push_back(p.avail_epoch);
  }
  out.push_back(anyone_);
  for (const Deferred& d : deferred_)
    out.push_back(static_cast<std::uint32_t>(d.peer)), out.push_back(d.nonce);
  return out;
}

}  // namespace gossamer::dist
