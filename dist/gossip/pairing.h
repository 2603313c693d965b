// The handshake: two neighbours agree on an exchange. No coordinator, no deadlock, and a slow or
// dead neighbour delays nobody. A pure state machine: events in, messages out. It owns no clock,
// socket, thread or random generator, so a test can walk through every reachable state of a small
// network.
//
// Why it has no deadlock:
//   - Ids are ordered, and only the lower of two workers proposes. A proposer waits for a higher
//     id; an acceptor waits only for the COMMIT or CANCEL that a proposer sends at once. No cycle
//     of waiting can close.
//   - A worker that is free sends AVAIL(epoch) to its lower neighbours. The epoch counts its
//     availabilities, so an old proposal can't reach a new availability.
//   - A worker that is asked to propose (AVAIL with nonce 1) proposes or declines at once. One that
//     is proposed to answers at once, unless it waits itself, for a COMMIT or for a still higher
//     worker. Then it defers the answer until its own has come.
//
//   lower id                          higher id
//       |  <---- AVAIL(epoch, nonce) ---- |    is free; nonce 1: asks for a proposal
//       |  ---- PROPOSE(epoch, nonce) --> |    or DECLINE with nonce 0: was asked, but is busy
//       |  <---------- ACCEPT(nonce) ---- |    or DECLINE
//       |  ----------- COMMIT(nonce) ---> |    or CANCEL; after COMMIT both are exchanging
//
// Being free and wanting an exchange are two things. A free worker answers. A worker wants an
// exchange when one is due by its quota (quota.h; HandshakePolicy calls due()). Then it draws a
// neighbour, by the rates of the edges, among the higher ones that are free and the lower ones that
// it has not asked yet. It proposes to a higher one, and asks a lower one to propose. So one worker
// starts each exchange, and it does not wait until its neighbour is due as well. A worker that has
// just ended an exchange is free, but does not want the next one at once. So partners vary,
// and edges keep their rates.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class Pairing {
 public:
  enum class State : std::uint8_t { idle, available, proposing, accepted, exchanging };
  // Picks one of the candidates, given their edge rates. Injected: a random generator in training,
  // every choice in turn in the checker.
  using Choose = std::function<std::size_t(std::span<const double> rates)>;

  // peers: all workers that this one may hear of, with the rate of the edge to them (0: no edge
  // now, but it is answered all the same).
  Pairing(int self, const std::map<int, double>& peers, Choose choose);

  // --- events
  void open();  // idle -> available
  // this worker wants one exchange, now or as soon as possible
  void due();
  void stop_wanting();  // goes on answering
  // avail, propose, accept, commit, cancel, decline
  void receive(int peer, const Message&);
  void time_out();  // the proposal has been unanswered for too long
  // Nothing has come for so long that a message may have been lost, although connections lose none:
  // sends again what others must know. If a peer is merely late, nothing changes: an ACCEPT that
  // comes twice is answered twice, and its COMMIT begins one exchange.
  void remind();
  void peer_dead(int peer);
  // a dead peer is back, in its first state; without an edge until set_rate
  void peer_joined(int peer);
  // exchanging -> idle, whether the payload came through or not
  void exchange_done();
  void set_rate(int peer, double rate);  // the graph has healed

  // --- results
  State state() const { return state_; }
  bool wanting() const { return wants_; }
  // of the proposal, acceptance or exchange under way; -1
  int partner() const { return partner_; }
  // exchanging: the same number on both sides, given by the lower id
  std::uint32_t session() const { return nonce_; }
  bool initiated() const { return initiated_; }  // exchanging: this worker's due() started it
  std::vector<std::pair<int, Message>> take_messages() { return std::exchange(outbox_, {}); }
  // grows whenever fingerprint() changes, and only then
  std::uint64_t changes() const { return changes_; }
  std::vector<std::uint32_t> fingerprint() const;  // of the whole state, for the checker

 private:
  struct Peer {
    double rate = 0;
    bool alive = true;
    // higher peers: said AVAIL(avail_epoch); wants us to propose
    bool avail = false, asks = false;
    std::uint32_t avail_epoch = 0;
    // lower peers: we asked in this epoch; it was busy
    bool asked = false, refused = false;
  };
  struct Deferred {
    int peer;
    std::uint32_t nonce;
  };

  void send(int peer, MessageType type, std::uint32_t epoch, std::uint32_t nonce);
  void announce(int peer);
  template <class T>
  void set(T& member, T value) {
    changes_ += member != value;
    member = value;
  }
  // available: answer, propose or ask, whatever is next
  void act();
  void initiate();
  void propose(int peer, bool own_want);
  void accept(int peer, std::uint32_t nonce);
  void begin_exchange();
  void on_avail(int peer, const Message&);
  void on_propose(int peer, const Message&);
  void on_decline(int peer, const Message&);

  int self_;
  std::map<int, Peer> peers_;
  Choose choose_;
  State state_ = State::idle;
  bool wants_ = false, own_want_ = false, initiated_ = false;
  int partner_ = -1;
  std::uint32_t epoch_ = 0, nonce_ = 0, next_nonce_ = 0, proposed_epoch_ = 0;
  std::vector<Deferred> deferred_;
  std::vector<std::pair<int, Message>> outbox_;
  std::uint64_t changes_ = 0;
};

}  // namespace gossamer::dist
