// The transfers of synchronous rounds: starts exchanges with a round's workers, and waits for them
// in the training thread. No thread of its own: the payload works beside the computation, and its
// events are read here, in poll() and wait().
#pragma once

#include <functional>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/dist/coding.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class RoundExchange {
 public:
  // An exchange with one worker of the round.
  struct Part {
    int peer = 0;
    double weight = 0;  // W_ij; 0: only sent to
    double share = 0;   // W_ji; 0: only received from
    bool sends = false, receives = false, ended = false, ok = false;
    Tensor received{};              // valid if ok
    Tensor codes{};                 // of it, where values travel coded
    std::vector<char> note{};       // of its sender
    double squared_distance = 0;    // between the piece and what came; not finite: of no use
    double began = 0, seconds = 0;  // from launch() to its end
    double began_us = 0;            // for traces
  };
  struct Outgoing {
    Tensor piece;
    std::vector<char> note;
  };
  // One piece on its way to and from the workers of a round. Slots are independent of each other (a
  // bucket each).
  struct Flight {
    bool open = false;
    i64 round = 0;
    std::uint64_t session = 0;
    double own = 1;
    Tensor piece{};
    // The piece as the others got it, where it travelled coded. Who mixes it instead of the piece
    // keeps the mean.
    Tensor sent{};
    std::vector<Part> parts;  // ascending peers
  };

  // other: what is no end of an exchange (messages, deaths), as it is read. deadline: of one
  // exchange, from its turn on. codes: of what each slot sends; empty: f32.
  RoundExchange(Group&, int slots, Seconds deadline, std::vector<Coded> codes,
                std::function<void(const Event&)> other);
  ~RoundExchange();  // gives up what is on its way
  RoundExchange(const RoundExchange&) = delete;
  RoundExchange& operator=(const RoundExchange&) = delete;

  // Begins the exchange of `piece` with the workers of `round`; it must not change before wait().
  // note: for the others' hosts. All workers launch slots and rounds in the same order, with
  // ascending sessions: exchanges with one peer run one after the other. Workers in `without` are
  // not waited for. each: what goes to one of them, where that is not the same for all; as long as
  // piece, which stands for it here. It must not change before wait() either.
  void launch(int slot, const Round& round, i64 number, std::uint64_t session, const Tensor& piece,
              std::span<const char> note, const std::function<bool(int)>& without,
              const std::function<Outgoing(int peer)>& each = nullptr);
  bool pending(int slot) const { return flights_[static_cast<std::size_t>(slot)].open; }
  // Waits until every part has ended, well or not.
  const Flight& complete(int slot);
  // The same; the slot is then free for the next launch. What it holds stays until then.
  const Flight& wait(int slot);
  const Flight& flight(int slot) const { return flights_[static_cast<std::size_t>(slot)]; }
  void poll();  // handles what has come in, without waiting
  // Gives up exchanges with `peer` of this and later rounds. They end with ok = false.
  void drop(int peer, i64 from_round = 0);
  // What codes the values of each slot, for a method that sends the codes in a way of its own.
  // Empty: f32.
  std::vector<Coded>& codes() { return codes_; }
  double bytes_sent() const { return bytes_sent_; }
  double waited() const { return waited_; }  // seconds in complete() and wait(), all together

 private:
  void handle(const Event&);
  static void end(Part&, bool ok);
  std::size_t most_with_one_peer() const;  // exchanges that have not ended

  ControlLink& link_;
  Payload& payload_;
  const int rank_;
  const Seconds deadline_;
  const std::function<void(const Event&)> other_;
  std::vector<Flight> flights_;
  std::vector<Coded> codes_;
  double bytes_sent_ = 0;
  double waited_ = 0;
};

}  // namespace gossamer::dist
