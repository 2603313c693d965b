// Pulling the peer's snapshot. Our own may be overwritten as soon as the exchange has ended on our
// side: a peer that still copies then has not said `moved`, and will not be answered by it.
#include "gossamer/dist/gpu/peer_copy.h"

namespace gossamer::dist {
namespace {

class PeerCopyChannel final : public GpuChannel {
 public:
  PeerCopyChannel(DevicePort& device, const void* own, std::shared_ptr<const void> theirs)
      : device_(device), own_(own), theirs_(std::move(theirs)), done_(device.make_event()) {}
  ~PeerCopyChannel() override { device_.free_event(done_); }

  Stage opened() override { return Stage::done; }
  // the peer has mapped this buffer and no other
  bool sends_from(const void* data) const override { return data == own_; }
  void launch(const void*, void* receive, std::size_t bytes) override {
    device_.copy(DevicePort::Stream::exchange, receive, theirs_.get(), bytes);
    device_.record(done_, DevicePort::Stream::exchange);
  }
  Stage moved() override { return device_.done(done_) ? Stage::done : Stage::pending; }
  void abort() override {}  // a copy ends by itself
  bool gone() override { return device_.done(done_); }
  std::string why() const override { return {}; }

 private:
  DevicePort& device_;
  const void* const own_;
  std::shared_ptr<const void> theirs_;
  const DevicePort::Event done_;
};

}  // namespace

std::unique_ptr<GpuChannel> PeerCopyMaker::open(int, bool, const Sent& send, const ChannelBytes&,
                                                const ChannelBytes& theirs) {
  return std::make_unique<PeerCopyChannel>(device_, send.data, memory_.open(theirs, send.bytes));
}

}  // namespace gossamer::dist
