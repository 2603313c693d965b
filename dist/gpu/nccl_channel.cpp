// The communicator of one edge.
#include "gossamer/dist/gpu/nccl_channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

constexpr int kNetworkCtas = 2;

class NcclChannel final : public GpuChannel {
 public:
  NcclChannel(DevicePort& device, NcclPort& nccl, const NcclPort::Id& id, int rank,
              const NcclPort::Options& options)
      : device_(device),
        nccl_(nccl),
        peer_(1 - rank),
        done_(device.make_event()),
        comm_(nccl.init(id, 2, rank, options)) {}

  ~NcclChannel() override { device_.free_event(done_); }

  Stage opened() override { return look(); }

  void launch(const void* send, void* receive, std::size_t bytes) override {
    marked_ = false;
    nccl_.group_start();
    nccl_.send(comm_, send, bytes, peer_);
    nccl_.receive(comm_, receive, bytes, peer_);
    nccl_.group_end();
  }

  // The kernel is in the stream only when the communicator says so; an event recorded before would
  // be reached without it.
  Stage moved() override {
    if (const Stage s = look(); s != Stage::done) return s;
    if (!std::exchange(marked_, true)) device_.record(done_, DevicePort::Stream::exchange);
    if (!device_.done(done_)) return Stage::pending;
    return look();  // a transport that failed ends its kernel as well
  }

  void abort() override { nccl_.abort(comm_); }
  bool gone() override { return nccl_.gone(comm_); }
  std::string why() const override { return why_; }

 private:
  Stage look() {
    const NcclPort::Status s = nccl_.status(comm_);
    if (s.stage == Stage::failed) why_ = s.why;
    return s.stage;
  }

  DevicePort& device_;
  NcclPort& nccl_;
  const int peer_;
  const DevicePort::Event done_;
  const NcclPort::Comm comm_;
  bool marked_ = false;
  std::string why_;
};

}  // namespace

NcclChannelMaker::NcclChannelMaker(int self, DevicePort& device, NcclPort& nccl, int most_ctas,
                                   std::uint64_t machine)
    : self_(self), most_ctas_(most_ctas), machine_(machine), device_(device), nccl_(nccl) {}

ChannelBytes NcclChannelMaker::offer(int, const Sent&) {
  ChannelBytes out(sizeof machine_);
  std::memcpy(out.data(), &machine_, sizeof machine_);
  return out;
}

ChannelBytes NcclChannelMaker::answer(int peer, const Sent& send, const ChannelBytes&) {
  ChannelBytes out = offer(peer, send);
  const NcclPort::Id id = nccl_.unique_id();
  out.resize(sizeof machine_ + id.size());
  std::ranges::copy(id, out.begin() + sizeof machine_);
  return out;
}

std::unique_ptr<GpuChannel> NcclChannelMaker::open(int peer, bool lower, const Sent&,
                                                   const ChannelBytes& own,
                                                   const ChannelBytes& theirs) {
  std::uint64_t machine = 0;
  NcclPort::Id id;
  const ChannelBytes& answer = lower ? own : theirs;
  check<DistError>(theirs.size() >= sizeof machine && answer.size() == sizeof machine + id.size(),
                   "worker ", peer, " sent an NCCL id of ", answer.size(), " bytes; wanted ",
                   sizeof machine + id.size());
  std::memcpy(&machine, theirs.data(), sizeof machine);
  std::copy(answer.begin() + sizeof machine, answer.end(), id.begin());
  const bool near = machine != 0 && machine == machine_;
  const auto [first, second] = std::minmax(self_, peer);
  return std::make_unique<NcclChannel>(
      device_, nccl_, id, lower ? 0 : 1,
      NcclPort::Options{.most_ctas = near ? most_ctas_ : std::min(most_ctas_, kNetworkCtas),
                        .name = "edge " + std::to_string(first) + "-" + std::to_string(second)});
}

}  // namespace gossamer::dist
