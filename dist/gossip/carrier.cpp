// Snapshots on CPUs.
#include "gossamer/dist/gossip/carrier.h"

#include <cstring>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

class HostCarrier final : public Carrier {
 public:
  HostCarrier(Group& group, i64 size)
      : group_(group), own_(Tensor::zeros({size})), received_(Tensor::zeros({size})) {}

  const Tensor& own() const override { return own_; }
  const Tensor& received() const override { return received_; }
  void start(int peer, std::uint64_t session, const Progress& note, Seconds limit) override {
    group_.payload().exchange(peer, session, own_, received_, note_of(note), limit);
  }
  Arrival arrived(const Event& e) override {
    return {.squared_distance = e.squared_distance, .theirs = progress_in(e)};
  }
  void abort(int peer) override { group_.payload().abort(peer); }
  void drain(Seconds limit) override { group_.payload().drain(limit); }

 private:
  Group& group_;
  const Tensor own_, received_;  // f32 [size]
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
