// What control connections carry: frames of 64 bytes, some with a short payload. Pure functions
// over bytes that anybody may have sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/dist/clock_offset.h"
#include "gossamer/dist/net/grant.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist::wire {

constexpr std::size_t kFrameBytes = 64;
// a longer one is refused before anything is allocated
constexpr std::size_t kMaxPayload = 64 * 1024;
constexpr std::uint8_t kVersion = 12;
constexpr std::uint32_t kMostRanks = 1024;  // that a frame may name; see kMaxWorkers

using Bytes = std::vector<std::uint8_t>;
using Token = std::array<std::uint8_t, 32>;  // a key

enum class Kind : std::uint8_t {
  hello = 1,  // first frame of the dialer: rank, world, listening port, purpose, life
  welcome,    // the answer: rank and life of the other side
  reject,     // the other answer; payload: why, in words
  // a third: another process has taken your rank; end. Payload: its grant, where the job encrypts
  // and its launcher gives grants; else words
  replaced,
  // where everybody listens: from worker 0 at the start, from the worker that a restarted one asked
  // later
  table,
  message,    // one of transport.h
  beat,       // "I am alive"; key: how many collective operations the sender has entered; clock
  key_value,  // key and bytes, e.g. addresses of payload connections
  // the exchange `key` failed on my side: my end of the payload edge opened in session `edge` is
  // closed
  edge_reset,
  // an operation of the collectives `key` failed on my side; edge: 1: others did not come in time
  collectives_ended,
  dropped,  // I gave you up (payload: why); come back with a new connection
  leaving,  // a clean end
  about,    // of the job, for one that asks for a place; payload: encode_about()
  taken,    // an answer to `rejoin`: another process has this place; ask for another one
};

// Why somebody dials. first: workers meet. back: the connection was lost. rejoin: the process was
// started again, or joins in a place that was free. enter: it asks for a place, and has no rank yet
// (0).
enum class Purpose : std::uint8_t { first, back, rejoin, enter };

struct Frame {
  Kind kind = Kind::beat;
  std::uint32_t rank = 0;            // of the sender
  std::uint32_t payload_bytes = 0;   // what follows the frame
  std::uint32_t world = 0;           // hello
  std::uint16_t port = 0;            // hello
  Purpose purpose = Purpose::first;  // hello
  std::uint64_t life = 0;            // hello, welcome: a random number of the sender's process
  std::uint64_t key = 0;             // key_value, edge_reset, collectives_ended, beat
  std::uint64_t edge = 0;            // edge_reset, collectives_ended
  ClockStamps clock;                 // beat
  Message message;                   // message
};

// Where a worker listens.
struct Address {
  std::string host;  // numeric
  std::uint16_t port = 0;
  PublicKey key{};     // that it proved at the first meeting; all zero: the job does not encrypt
  bool alive = false;  // as whoever says this sees it
};

Bytes encode(const Frame&, std::span<const std::uint8_t> payload = {});

// Fills `frame` and returns nullptr, or says what is wrong with the 64 bytes. Strict: unknown
// kinds, non-finite numbers, unused bytes that are not zero and payloads where none belongs are all
// refused.
const char* decode(std::span<const std::uint8_t, kFrameBytes>, Frame& frame);

// The key that a secret text stands for.
Token make_token(const std::string& text);

Bytes encode_table(const std::vector<Address>&);
const char* decode_table(std::span<const std::uint8_t>, std::vector<Address>&);

// started: how many workers began together
Bytes encode_about(std::uint32_t started, const std::string& text);
const char* decode_about(std::span<const std::uint8_t>, std::uint32_t& started, std::string& text);

Bytes to_bytes(const std::string&);
// text of a peer for our messages, as core/text/printable.h makes it, of at most 500 bytes
std::string printable(std::span<const std::uint8_t>);

}  // namespace gossamer::dist::wire
