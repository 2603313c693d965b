// An offer holds what both channels want to know; the answer says which one it is for.
#include "gossamer/dist/gpu/best_channel.h"

#include <algorithm>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

// The first byte of an answer.
constexpr char kCopy = 'c', kNccl = 'n';

// An offer: the length of the part for NCCL (at most 255), that part, the part for copies.
ChannelBytes joined(const ChannelBytes& nccl, const ChannelBytes& copies) {
  ChannelBytes out(1 + nccl.size() + copies.size(), static_cast<char>(nccl.size()));
  std::ranges::copy(copies, std::ranges::copy(nccl, out.begin() + 1).out);
  return out;
}
struct Offer {
  ChannelBytes nccl, copies;
};
Offer parts_of(int peer, const ChannelBytes& bytes) {
  const std::size_t length = bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]);
  check<DistError>(bytes.size() > length, "worker ", peer, " sent an offer that is cut off");
  const auto split = bytes.begin() + 1 + static_cast<std::ptrdiff_t>(length);
  return {{bytes.begin() + 1, split}, {split, bytes.end()}};
}

ChannelBytes tagged(char tag, const ChannelBytes& bytes) {
  ChannelBytes out(1 + bytes.size(), tag);
  std::ranges::copy(bytes, out.begin() + 1);
  return out;
}

}  // namespace

BestChannel::BestChannel(int self, Parts parts) : self_(self), parts_(std::move(parts)) {
  check<DistError>(parts_.copies != nullptr || parts_.nccl != nullptr, "worker ", self,
                   ": there is no way to another GPU; set transport=host");
}

ChannelBytes BestChannel::offer(int peer, const Sent& send) {
  return joined(parts_.nccl != nullptr ? parts_.nccl->offer(peer, send) : ChannelBytes(),
                copies(peer) ? parts_.copies->offer(peer, send) : ChannelBytes());
}

ChannelBytes BestChannel::answer(int peer, const Sent& send, const ChannelBytes& theirs) {
  const Offer offer = parts_of(peer, theirs);
  if (copies(peer) && !offer.copies.empty() && (!parts_.near || parts_.near(offer.copies)))
    return tagged(kCopy, parts_.copies->answer(peer, send, offer.copies));
  check<DistError>(parts_.nccl != nullptr, "worker ", self_, " can't reach the GPU of worker ",
                   peer, " by copies, and has no NCCL; set transport=host");
  return tagged(kNccl, parts_.nccl->answer(peer, send, offer.nccl));
}

std::unique_ptr<GpuChannel> BestChannel::open(int peer, bool lower, const Sent& send,
                                              const ChannelBytes& own, const ChannelBytes& theirs) {
  const ChannelBytes& said = lower ? own : theirs;
  const Offer offer = parts_of(peer, lower ? theirs : own);
  const bool copy = !said.empty() && said[0] == kCopy;
  GpuChannelMaker* const maker = copy ? parts_.copies : parts_.nccl;
  check<DistError>(!said.empty() && (copy || said[0] == kNccl) && maker != nullptr, "worker ", peer,
                   " chose a channel that this worker does not have; do all workers have the same "
                   "transport?");
  const ChannelBytes answer(said.begin() + 1, said.end());
  const ChannelBytes& offered = copy ? offer.copies : offer.nccl;
  try {
    auto channel =
        maker->open(peer, lower, send, lower ? answer : offered, lower ? offered : answer);
    if (parts_.log)
      parts_.log("edge " + std::to_string(self_) + "-" + std::to_string(peer) + ": " +
                 maker->name());
    return channel;
  } catch (const DistError& e) {
    if (copy && unreachable_.insert(peer).second && parts_.log)
      parts_.log("edge " + std::to_string(self_) + "-" + std::to_string(peer) +
                 ": no peer copies: " + e.what());
    throw;
  }
}

}  // namespace gossamer::dist
