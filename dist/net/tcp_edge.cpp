// One exchange over TCP: up to three messages each way, the note, the tensor, and "I have yours".
#ifdef GOSSAMER_HAS_GLOO
#include "gossamer/dist/net/tcp_edge.h"

#include <algorithm>
#include <array>
#include <memory>

#include <gloo/transport/unbound_buffer.h>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

// A note on its way: its length, then its bytes.
using Note = std::array<char, 1 + kLongestNote>;

std::chrono::milliseconds left(std::chrono::steady_clock::time_point until) {
  return std::max(
      std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()),
      std::chrono::milliseconds(1));
}

}  // namespace

TcpEdge::TcpEdge(const AsioLink& link, int peer, const PayloadJob& job)
    : rank_(link.rank()),
      peer_(peer),
      secret_(link.connection(peer)),
      context_(std::make_shared<GlooContext>(
          link.local_address(), rank_ < peer ? 0 : 1, 2, left(job.until),
          link.keys({std::min(rank_, peer), std::max(rank_, peer)}))) {}

void TcpEdge::connect(AsioLink& link, const PayloadJob& job, const std::atomic<bool>& stop) {
  const int other = rank_ < peer_ ? 1 : 0;
  const std::uint64_t key = scrambled(job.session ^ 0x65646765);  // "edge"
  link.put(peer_, key, context_->address(), job.arrival);
  const auto address = link.take(peer_, key, job.until, stop);
  if (!address) {
    if (!link.alive(peer_)) fail<DistError>("worker ", peer_, " is gone: ", link.why_dead(peer_));
    fail<DistError>(stop ? "given up" : "no answer", " while opening the payload edge to worker ",
                    peer_);
  }
  context_->connect(other, *address, link.side(peer_), job.until);
}

PayloadEdge::Arrival TcpEdge::carry(const PayloadJob& job) {
  // A different length or type gets a different slot: then they wait for each other in vain.
  const auto slot = [&](std::uint64_t what) {
    return scrambled(job.session * 2 + 1) ^ scrambled(what) ^ secret_;
  };
  const auto slot_of = [&](const Tensor& t) {
    return slot(t.bytes() << 8 | static_cast<std::uint64_t>(t.dtype()));
  };
  const std::uint64_t notes = slot(~std::uint64_t{0}), all_here = slot(~std::uint64_t{1});
  const int other = peer_ < rank_ ? 0 : 1;
  Note own{}, theirs{};
  own[0] = static_cast<char>(job.note.size());
  std::ranges::copy(job.note, own.begin() + 1);
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> in, out;
  const auto add = [&](auto& to, void* data, std::size_t bytes) -> auto& {
    return *to.emplace_back(context_->createUnboundBuffer(data, bytes));
  };
  if (goes(job.receive)) {
    const std::size_t bytes = job.receive.bytes();
    add(in, job.receive.data(), bytes).recv(other, slot_of(job.receive), 0, bytes);
    add(in, theirs.data(), theirs.size()).recv(other, notes, 0, theirs.size());
  }
  if (goes(job.send)) {
    const std::size_t bytes = job.send.bytes();
    add(out, own.data(), own.size()).send(other, notes, 0, own.size());
    add(out, job.send.data(), bytes).send(other, slot_of(job.send), 0, bytes);
  }
  for (const auto& buffer : in) buffer->waitRecv(left(job.until));
  if (goes(job.receive)) add(out, nullptr, 0).send(other, all_here, 0, 0);
  for (const auto& buffer : out) buffer->waitSend(left(job.until));
  if (goes(job.send)) {
    const auto answer = context_->createUnboundBuffer(nullptr, 0);
    answer->recv(other, all_here, 0, 0);
    answer->waitRecv(left(job.until));
  }
  const auto length = static_cast<unsigned char>(theirs[0]);
  check<DistError>(length <= kLongestNote, "worker ", peer_, " sent a note of ",
                   static_cast<int>(length), " bytes");
  return {{theirs.begin() + 1, theirs.begin() + 1 + length},
          distance_of_exchange(job.send, job.receive)};
}

}  // namespace gossamer::dist
#endif
