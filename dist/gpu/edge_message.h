// What the two sides of a GPU edge tell each other over the control connection. Pure functions over
// bytes that anybody may have sent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gossamer::dist {

struct EdgeMessage {
  enum class Kind : std::uint8_t {
    // I have no channel (any more) for this session. From the higher rank: its offer, and that it
    // is about to join
    open = 1,
    offer,  // of the lower rank, in answer to that
    // my snapshot is taken; on the channel of that generation I may be sent to from now on. With a
    // note for the other host
    ready,
    // all has arrived here, whole: commit as soon as you can say the same. Not taken back, but for
    // `withdraw`
    moved,
    withdraw,  // I can't wait any longer: unless you have said `moved` already, say `abort`
    abort,     // this session failed on my side; nothing of it is or will be applied here
  } kind = Kind::abort;
  std::uint64_t session = 0;
  std::uint64_t generation = 0;  // ready: the session in which the channel was opened
  std::vector<char> bytes;       // open, offer, ready
  bool operator==(const EdgeMessage&) const = default;
};

constexpr std::size_t kMostMessageBytes = 1024;  // the longest `bytes`
std::vector<char> encode(const EdgeMessage&);
const char* decode(std::span<const char>, EdgeMessage& out);  // nullptr, or what is wrong

}  // namespace gossamer::dist
