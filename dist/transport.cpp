// What all transports ask of an exchange, and say of its end.
#include "gossamer/dist/transport.h"

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/reducer.h"

namespace gossamer::dist {

bool goes(const Tensor& t) { return t.defined() && t.numel() > 0; }

void check_exchange(int peer, const Tensor& send, const Tensor& receive,
                    std::span<const char> note) {
  check<DistError>(goes(send) || goes(receive), "exchange with worker ", peer,
                   ": nothing to send and nothing to receive");
  check<DistError>(note.size() <= kLongestNote, "exchange with worker ", peer, ": a note of ",
                   note.size(), " bytes, at most ", kLongestNote, " are possible");
  check<DistError>(note.empty() || goes(send), "exchange with worker ", peer,
                   ": a note without a tensor to send");
}

void check_gathered(std::size_t bytes, const Tensor& all) {
  check<ShapeError>(all.device().is_cpu() && all.bytes() == bytes, "what all send has ", bytes,
                    " bytes, and a tensor of ", all.bytes(), " is to take it");
}

double distance_of_exchange(const Tensor& send, const Tensor& receive) {
  const bool comparable = goes(send) && goes(receive) && send.dtype() == DType::f32 &&
                          receive.dtype() == DType::f32 && send.numel() == receive.numel();
  return comparable ? squared_distance(send, receive) : 0;
}

void announce(Group& group, Notice what, double value) {
  for (int peer = 0; peer < group.size(); ++peer)
    if (peer != group.rank())
      group.control().send(
          peer,
          {.type = MessageType::notice, .epoch = static_cast<std::uint32_t>(what), .value = value});
}

std::unique_ptr<Reducer> Group::reducer(std::size_t) { return std::make_unique<HostReducer>(); }

}  // namespace gossamer::dist
