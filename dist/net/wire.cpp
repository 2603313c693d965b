// Encoding and strict decoding of control frames: little-endian, fixed positions, every byte
// accounted for.
#include "gossamer/dist/net/wire.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "gossamer/core/text/printable.h"
#include "gossamer/dist/net/hmac.h"

namespace gossamer::dist::wire {
namespace {

constexpr std::uint32_t kMagic = 0x524d5347;  // "GSMR"
enum Position : std::size_t {
  at_magic = 0,
  at_version = 4,
  at_kind = 5,
  at_type = 6,  // message; hello: purpose
  at_payload = 8,
  at_rank = 12,
  // hello
  at_world = 16,
  at_port = 20,
  at_life = 24,  // and welcome
  // key_value, edge_reset, beat
  at_key = 16,
  at_edge = 24,  // edge_reset
  // message
  at_epoch = 16,
  at_nonce = 20,
  at_progress = 24,
  at_gradients = 32,
  at_value = 40,
  // beat
  at_sent = 24,
  at_echo = 32,
  at_heard = 40,
};

template <class T>
void put(std::uint8_t* at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<std::uint8_t>(value >> (8 * i));
}
void put(std::uint8_t* at, double value) { put(at, std::bit_cast<std::uint64_t>(value)); }

template <class T>
T get(const std::uint8_t* at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | (static_cast<T>(at[i]) << (8 * i)));
  return value;
}
double get_double(const std::uint8_t* at) { return std::bit_cast<double>(get<std::uint64_t>(at)); }

bool carries_life(Kind k) { return k == Kind::hello || k == Kind::welcome; }
bool carries_edge(Kind k) { return k == Kind::edge_reset || k == Kind::collectives_ended; }
bool carries_key(Kind k) { return k == Kind::key_value || carries_edge(k) || k == Kind::beat; }
bool carries_payload(Kind k) {
  return k == Kind::reject || k == Kind::replaced || k == Kind::table || k == Kind::key_value ||
         k == Kind::dropped || k == Kind::about;
}
bool finite(double a, double b, double c) {
  return std::isfinite(a) && std::isfinite(b) && std::isfinite(c);
}

}  // namespace

Bytes encode(const Frame& f, std::span<const std::uint8_t> payload) {
  Bytes out(kFrameBytes + payload.size(), 0);
  std::uint8_t* p = out.data();
  put(p + at_magic, kMagic);
  p[at_version] = kVersion;
  p[at_kind] = static_cast<std::uint8_t>(f.kind);
  put(p + at_payload, static_cast<std::uint32_t>(payload.size()));
  put(p + at_rank, f.rank);
  if (f.kind == Kind::hello) {
    put(p + at_world, f.world);
    put(p + at_port, f.port);
    p[at_type] = static_cast<std::uint8_t>(f.purpose);
  }
  if (carries_life(f.kind)) put(p + at_life, f.life);
  if (carries_key(f.kind)) put(p + at_key, f.key);
  if (carries_edge(f.kind)) put(p + at_edge, f.edge);
  if (f.kind == Kind::beat) {
    put(p + at_sent, f.clock.sent);
    put(p + at_echo, f.clock.echo);
    put(p + at_heard, f.clock.heard);
  }
  if (f.kind == Kind::message) {
    p[at_type] = static_cast<std::uint8_t>(f.message.type);
    put(p + at_epoch, f.message.epoch);
    put(p + at_nonce, f.message.nonce);
    put(p + at_progress, f.message.progress);
    put(p + at_gradients, f.message.gradients);
    put(p + at_value, f.message.value);
  }
  if (!payload.empty()) std::memcpy(p + kFrameBytes, payload.data(), payload.size());
  return out;
}

const char* decode(std::span<const std::uint8_t, kFrameBytes> bytes, Frame& out) {
  const std::uint8_t* p = bytes.data();
  if (get<std::uint32_t>(p + at_magic) != kMagic) return "not a Gossamer frame";
  if (p[at_version] != kVersion)
    return "another protocol version (are all workers of the same build?)";
  if (p[at_kind] < static_cast<std::uint8_t>(Kind::hello) ||
      p[at_kind] > static_cast<std::uint8_t>(Kind::taken)) {
    return "a frame of unknown kind";
  }
  Frame f;
  f.kind = static_cast<Kind>(p[at_kind]);
  f.payload_bytes = get<std::uint32_t>(p + at_payload);
  f.rank = get<std::uint32_t>(p + at_rank);
  if (f.payload_bytes > kMaxPayload) return "a payload longer than allowed";
  if (f.payload_bytes != 0 && !carries_payload(f.kind)) return "a payload where none belongs";
  if (f.rank >= kMostRanks) return "a rank out of range";
  if (f.kind == Kind::hello) {
    f.world = get<std::uint32_t>(p + at_world);
    f.port = get<std::uint16_t>(p + at_port);
    if (f.world > kMostRanks) return "a number of workers out of range";
    if (p[at_type] > static_cast<std::uint8_t>(Purpose::enter)) return "a hello of unknown purpose";
    f.purpose = static_cast<Purpose>(p[at_type]);
  }
  if (carries_life(f.kind)) f.life = get<std::uint64_t>(p + at_life);
  if (carries_key(f.kind)) f.key = get<std::uint64_t>(p + at_key);
  if (carries_edge(f.kind)) f.edge = get<std::uint64_t>(p + at_edge);
  if (f.kind == Kind::beat) {
    f.clock = {get_double(p + at_sent), get_double(p + at_echo), get_double(p + at_heard)};
    if (!finite(f.clock.sent, f.clock.echo, f.clock.heard))
      return "a heartbeat with times that are not finite";
  }
  if (f.kind == Kind::message) {
    if (p[at_type] > static_cast<std::uint8_t>(MessageType::notice))
      return "a message of unknown type";
    f.message.type = static_cast<MessageType>(p[at_type]);
    f.message.epoch = get<std::uint32_t>(p + at_epoch);
    f.message.nonce = get<std::uint32_t>(p + at_nonce);
    f.message.progress = get_double(p + at_progress);
    f.message.gradients = get_double(p + at_gradients);
    f.message.value = get_double(p + at_value);
    if (!finite(f.message.progress, f.message.gradients, f.message.value))
      return "a message with numbers that are not finite";
  }
  // One form for one meaning: what encode() would not write is refused.
  const Bytes again = encode(f);
  for (std::size_t i = 0; i < kFrameBytes; ++i) {
    // encode() without payload writes 0 there
    const bool length = i >= at_payload && i < at_payload + 4;
    if (!length && again[i] != p[i]) return "a frame with stray bytes";
  }
  out = f;
  return nullptr;
}

Token make_token(const std::string& text) { return hmac(to_bytes(text), to_bytes("gossamer job")); }

// beside the length of a host in a table
constexpr std::uint8_t kAlive = 0x80;

Bytes encode_table(const std::vector<Address>& table) {
  Bytes out(4);
  put(out.data(), static_cast<std::uint32_t>(table.size()));
  for (const Address& a : table) {
    out.push_back(static_cast<std::uint8_t>(a.port & 0xff));
    out.push_back(static_cast<std::uint8_t>(a.port >> 8));
    const auto length = static_cast<std::uint8_t>(std::min<std::size_t>(a.host.size(), 45));
    out.push_back(static_cast<std::uint8_t>(length | (a.alive ? kAlive : 0)));
    out.insert(out.end(), a.host.begin(), a.host.begin() + length);
    out.insert(out.end(), a.key.begin(), a.key.end());
  }
  return out;
}

const char* decode_table(std::span<const std::uint8_t> bytes, std::vector<Address>& out) {
  if (bytes.size() < 4) return "a table that is cut off";
  const std::uint32_t count = get<std::uint32_t>(bytes.data());
  if (count > kMostRanks) return "a table of too many workers";
  std::vector<Address> table;
  std::size_t at = 4;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (bytes.size() - at < 3) return "a table that is cut off";
    const std::size_t length = bytes[at + 2] & ~kAlive;
    const bool alive = (bytes[at + 2] & kAlive) != 0;
    const auto port = static_cast<std::uint16_t>(bytes[at] | (bytes[at + 1] << 8));
    at += 3;
    PublicKey key{};
    if (length > 45 || bytes.size() - at < length + key.size()) return "a table with a bad address";
    std::string host(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                     bytes.begin() + static_cast<std::ptrdiff_t>(at + length));
    if (host.find_first_not_of("0123456789abcdefABCDEF.:") != std::string::npos)
      return "a table with a bad address";
    at += length;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), key.size(), key.begin());
    at += key.size();
    table.push_back({std::move(host), port, key, alive});
  }
  if (at != bytes.size()) return "a table with stray bytes";
  out = std::move(table);
  return nullptr;
}

Bytes encode_about(std::uint32_t started, const std::string& text) {
  Bytes out(4 + text.size());
  put(out.data(), started);
  std::copy(text.begin(), text.end(), out.begin() + 4);
  return out;
}

const char* decode_about(std::span<const std::uint8_t> bytes, std::uint32_t& started,
                         std::string& text) {
  if (bytes.size() < 4) return "words about the job that are cut off";
  const auto count = get<std::uint32_t>(bytes.data());
  if (count < 1 || count > kMostRanks) return "a number of workers out of range";
  started = count;
  text.assign(bytes.begin() + 4, bytes.end());
  return nullptr;
}

Bytes to_bytes(const std::string& s) {
  return Bytes(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(std::min(s.size(), kMaxPayload)));
}

std::string printable(std::span<const std::uint8_t> bytes) {
  return gossamer::printable({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 500);
}

}  // namespace gossamer::dist::wire
