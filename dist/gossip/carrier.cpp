// Snapshots on CPUs: floats, with the progress behind them.
#include "gossamer/dist/gossip/carrier.h"

#include <cstring>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

class HostCarrier final : public Carrier {
 public:
  HostCarrier(Group& group, i64 size)
      : group_(group), own_(Tensor::zeros({size})), theirs_(Tensor::zeros({size})) {}

  void snapshot(WorkerState<Tensor>& worker, double t) override {
    mark_ = worker.snapshot(t, own_);
  }
  void apply(WorkerState<Tensor>& worker) override { worker.apply(mark_, own_, theirs_); }

  void start(int peer, std::uint64_t session, const Progress& own, Seconds limit) override {
    group_.payload().exchange(peer, session, own_, theirs_, note_of(own), limit);
  }
  Arrival arrived(const Event& e) override {
    return {.squared_distance = e.squared_distance, .theirs = progress_in(e)};
  }
  void abort(int peer) override { group_.payload().abort(peer); }
  void settle(Seconds limit) override { group_.payload().drain(limit); }

 private:
  Group& group_;
  Tensor own_, theirs_;  // [size]
  double mark_ = 0;
};

}  // namespace

std::span<const char> note_of(const Progress& own) {
  return {reinterpret_cast<const char*>(&own), sizeof own};
}

Progress progress_in(const Event& e) {
  Progress theirs;
  check<DistError>(e.note.size() == sizeof theirs, "a note of ", e.note.size(),
                   " bytes came with exchange ", e.session, "; wanted ", sizeof theirs);
  std::memcpy(static_cast<void*>(&theirs), e.note.data(), sizeof theirs);
  return theirs;
}

std::unique_ptr<Carrier> host_carrier(Group& group, i64 size) {
  return std::make_unique<HostCarrier>(group, size);
}

}  // namespace gossamer::dist
