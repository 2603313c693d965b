// Pieces of rounds between GPUs over the host: device -> pinned memory -> Payload (Gloo) -> pinned
// memory -> device. Copies have the exchange lane for themselves; a thread watches them, so that
// neither the training thread nor the compute lane ever waits for one that is not due:
//
//   compute   ── bwd ─[written]─ update of the next piece ── bwd ─ … ─ fwd k+1 ─ bwd k+1
//   ──────────────────────── mix ─ update ── exchange  ·················· copy out [copied]
//   ······································ copy in, |own - theirs|^2 [landed] ······· its thread
//   polls written, launches; polls copied, starts the payload                                polls
//   landed, posts payload   ······································ to and from the peer
//   ·············· host      ── offer() ─ enqueues on, and reads the next batch ─ … ──────── waits
//   for the round: land() ───────────┘ enqueues mix
//
// A copy out is launched when its piece is written, not behind an event: copies in that come first
// need not wait for the computation then. The squared distances come along with the pieces, so the
// methods' statistics cost no wait of their own.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gossamer/dist/gpu/port.h"
#include "gossamer/dist/rounds/round_carrier.h"

namespace gossamer::dist {

class StagedRounds final : public RoundCarrier {
 public:
  // keep: what owns the port; destroyed last.
  StagedRounds(Group&, DevicePort&, int slots, std::shared_ptr<void> keep = {});
  // until no copy touches the pieces any more; after settle()
  ~StagedRounds() override;

  // Also DistError, if the device failed.
  void offer(int slot, const Tensor& piece, i64 notes) override;
  void exchange(int slot, int peer, std::uint64_t session, bool sends, const Tensor& receive,
                Seconds deadline) override;
  bool land(int slot, int peer) override;
  Arrival arrival(int slot, int peer) override;
  void withdraw(int slot, Seconds limit) override;
  void abort(int peer) override;
  void settle(Seconds limit) override;

 private:
  using Lane = DevicePort::Lane;
  struct Slot {
    enum class At : std::uint8_t { nowhere, device, moving, host } at = At::nowhere;
    Tensor piece{}, distances{};  // distances: f32 [workers], of what came from each
    i64 notes = 0;
    std::shared_ptr<Block> host{};  // pinned, of the piece
    DevicePort::Event written = 0, copied = 0;
  };
  // The exchanges of a slot with a peer, one after the other.
  struct Leg {
    // travelling: until the payload's event
    enum class At : std::uint8_t { idle, waiting, travelling, landing } at = At::idle;
    std::uint64_t session = 0;
    bool sends = false, given_up = false;
    double until = 0;
    Tensor receive{};
    std::shared_ptr<Block> host{};  // pinned: what came, then the distance
    DevicePort::Event landed = 0;
  };
  using LegKey = std::pair<int, int>;  // slot, peer

  void run();
  bool look();  // true: something is expected of the device soon
  bool look(Slot&);
  bool look(LegKey, Leg&);
  void start(LegKey, Leg&);
  void post(LegKey, Leg&, const std::string& why);  // its end; why: empty if it is a good one
  Slot& slot_at(int slot) { return slots_.at(static_cast<std::size_t>(slot)); }
  void check_device() const;

  const std::shared_ptr<void> keep_;  // destroyed last
  Group& group_;
  DevicePort& port_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::map<LegKey, Leg> legs_;
  std::string lost_;  // the device failed: why
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace gossamer::dist
