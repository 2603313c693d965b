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
// starts each exchange, and it does not wait until its neighbour is due as well.
//
// Partners vary: a worker draws another neighbour than the partner of its last exchange. Under load
// both have a wish left when they part, and all others are busy: without this rule they would meet
// again at once, with models that are nearly equal still. The rule is for who starts; a question is
// answered at once, whoever asks. It ends after a time (meet_anyone(); HandshakePolicy has the
// clock) until another neighbour was met: nobody waits for ever, or again and again, for neighbours
// that are slow. It does not hold for an edge with more than half of the worker's rate, which could
// not keep that rate; for others the draw is such that edges keep their rates (unrepeated()).
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
  // the other neighbours have been waited for long enough: until one of them was met, the last
  // partner may be drawn as well
  void meet_anyone();

  // --- results
  State state() const { return state_; }
  bool wanting() const { return wants_; }
  // of the proposal, acceptance or exchange under way; -1
  int partner() const { return partner_; }
  // exchanging: the same number on both sides, given by the lower id
  std::uint32_t session() const { return nonce_; }
  bool initiated() const { return initiated_; }  // exchanging: this worker's due() started it
  // the partner of the last exchange, which is not drawn now; -1: anybody is
  int avoided() const;
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
  int last_ = -1;        // the partner of the last exchange; -1: none
  bool anyone_ = false;  // it may be drawn again
  std::uint32_t epoch_ = 0, nonce_ = 0, next_nonce_ = 0, proposed_epoch_ = 0;
  std::vector<Deferred> deferred_;
  std::vector<std::pair<int, Message>> outbox_;
  std::uint64_t changes_ = 0;
};

// Weights for drawing without repeats: a chain that goes from i to j != i with a probability
// proportional to w_j is at i in a part of its steps proportional to w_i (sum of w - w_i). These
// weights make that the part which `rates` has; none of these may be above half of the sum.
std::vector<double> unrepeated(std::span<const double> rates);

}  // namespace gossamer::dist
