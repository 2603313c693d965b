// Pieces on CPUs: the payload reads and writes the tensors themselves.
#include "gossamer/dist/rounds/round_carrier.h"

#include <map>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/core/update.h"

namespace gossamer::dist {
namespace {

class HostRoundCarrier final : public RoundCarrier {
 public:
  HostRoundCarrier(Payload& payload, int slots)
      : payload_(payload), slots_(static_cast<std::size_t>(slots)) {}

  void offer(int slot, const Tensor& piece, i64 notes) override {
    check<DeviceError>(piece.device().is_cpu(), "a round of parameters on ", piece.device(),
                       " needs MethodOptions::round_carrier; gpu_round_carriers() makes it");
    at(slot) = {.piece = piece, .notes = notes, .received = {}};
  }
  void exchange(int slot, int peer, std::uint64_t session, bool sends, const Tensor& receive,
                Seconds deadline) override {
    const Slot& s = at(slot);
    if (receive.defined()) at(slot).received[peer] = receive;
    payload_.exchange(peer, session, sends ? s.piece : Tensor(), receive, {}, deadline);
  }
  bool land(int, int) override { return true; }
  Arrival arrival(int slot, int peer) override {
    const Slot& s = at(slot);
    const Tensor& received = s.received.at(peer);
    const i64 values = s.piece.numel() - s.notes;
    return {.squared_distance =
                gossamer::squared_distance(s.piece.slice(0, values), received.slice(0, values)),
            .notes = received.span<float>().subspan(static_cast<std::size_t>(values))};
  }
  // a payload lets go of a piece before it says that an exchange has ended
  void withdraw(int, Seconds) override {}
  void abort(int peer) override { payload_.abort(peer); }
  void settle(Seconds limit) override { payload_.drain(limit); }

 private:
  struct Slot {
    Tensor piece{};
    i64 notes = 0;
    std::map<int, Tensor> received{};
  };
  Slot& at(int slot) { return slots_[static_cast<std::size_t>(slot)]; }

  Payload& payload_;
  std::vector<Slot> slots_;
};

}  // namespace

std::unique_ptr<RoundCarrier> host_round_carrier(Group& group, int slots) {
  return std::make_unique<HostRoundCarrier>(group.payload(), slots);
}

}  // namespace gossamer::dist
