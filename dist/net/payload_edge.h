// One end of what carries tensors between this process and one other. Private to dist/.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// An exchange that waits for its turn, or has it.
struct PayloadJob {
  std::uint64_t session, arrival;  // arrival: of the peer, as AsioLink::arrivals() counts
  Tensor send, receive;
  std::vector<char> note;
  Seconds deadline;
  bool given_up = false;                             // it shall end
  std::chrono::steady_clock::time_point until = {};  // from its turn on
};

class PayloadEdge {
 public:
  struct Arrival {
    std::vector<char> note;       // the peer's
    double squared_distance = 0;  // Event::squared_distance
  };
  virtual ~PayloadEdge() = default;
  // Returns when both tensors are where they shall be; throws at job.until, or soon after abort().
  // Afterwards nothing uses the tensors.
  virtual Arrival carry(const PayloadJob&) = 0;
  // Any thread; followed by AsioLink::interrupt(): carry(), now and later, throws.
  virtual void abort() = 0;
};

// All bits scrambled (SplitMix64), so that keys made of small numbers are not alike.
inline std::uint64_t scrambled(std::uint64_t h) {
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

}  // namespace gossamer::dist
