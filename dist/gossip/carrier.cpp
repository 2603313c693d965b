// Snapshots on CPUs: floats, with the progress behind them.
#include "gossamer/dist/gossip/carrier.h"

#include <cstring>

namespace gossamer::dist {
namespace {

constexpr int kProgressFloats = 6;  // three doubles

class HostCarrier final : public Carrier {
 public:
  HostCarrier(Group& group, i64 size)
      : group_(group),
        send_(Tensor::zeros({size + kProgressFloats})),
        receive_(Tensor::zeros({size + kProgressFloats})),
        own_(send_.slice(0, size)),
        theirs_(receive_.slice(0, size)) {}

  void snapshot(WorkerState<Tensor>& worker, double t) override {
    mark_ = worker.snapshot(t, own_);
  }
  void apply(WorkerState<Tensor>& worker) override { worker.apply(mark_, own_, theirs_); }

  void start(int peer, std::uint64_t session, const Progress& own, Seconds limit) override {
    static_assert(sizeof own == kProgressFloats * sizeof(float));
    std::memcpy(send_.as<float>() + own_.numel(), &own, sizeof own);
    group_.payload().exchange(peer, session, send_.span<float>(), receive_.span<float>(), limit);
  }
  Arrival arrived() override {
    Arrival out{.squared_distance = squared_distance(own_, theirs_), .theirs = {}};
    std::memcpy(static_cast<void*>(&out.theirs), receive_.as<float>() + own_.numel(),
                sizeof out.theirs);
    return out;
  }
  void abort(int peer) override { group_.payload().abort(peer); }
  void settle(Seconds limit) override { group_.payload().settle(limit); }

 private:
  Group& group_;
  Tensor send_, receive_;  // [size + 6]
  Tensor own_, theirs_;    // their first `size` elements
  double mark_ = 0;
};

}  // namespace

std::unique_ptr<Carrier> host_carrier(Group& group, i64 size) {
  return std::make_unique<HostCarrier>(group, size);
}

}  // namespace gossamer::dist
