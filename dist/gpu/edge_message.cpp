// Messages as bytes: kind, session, generation, length, all little endian.
#include "gossamer/dist/gpu/edge_message.h"

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

constexpr std::size_t kHead = 1 + 8 + 8 + 2;

template <class T>
void put(std::vector<char>& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}
template <class T>
T get(const char* p) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(
        value | static_cast<T>(static_cast<T>(static_cast<unsigned char>(p[i])) << (8 * i)));
  return value;
}

bool carries_bytes(EdgeMessage::Kind k) {
  return k == EdgeMessage::Kind::open || k == EdgeMessage::Kind::offer ||
         k == EdgeMessage::Kind::ready;
}

}  // namespace

std::vector<char> encode(const EdgeMessage& message) {
  check<DistError>(message.bytes.size() <= kMostMessageBytes, "a message of ", message.bytes.size(),
                   " bytes; at most ", kMostMessageBytes);
  std::vector<char> out{static_cast<char>(message.kind)};
  out.reserve(kHead + message.bytes.size());
  put(out, message.session);
  put(out, message.generation);
  put(out, static_cast<std::uint16_t>(message.bytes.size()));
  out.insert(out.end(), message.bytes.begin(), message.bytes.end());
  return out;
}

const char* decode(std::span<const char> bytes, EdgeMessage& out) {
  if (bytes.size() < kHead) return "a message that is cut off";
  const auto kind = static_cast<unsigned char>(bytes[0]);
  if (kind < static_cast<unsigned char>(EdgeMessage::Kind::open) ||
      kind > static_cast<unsigned char>(EdgeMessage::Kind::abort))
    return "a message of unknown kind";
  EdgeMessage message;
  message.kind = static_cast<EdgeMessage::Kind>(kind);
  message.session = get<std::uint64_t>(&bytes[1]);
  message.generation = get<std::uint64_t>(&bytes[9]);
  const auto length = get<std::uint16_t>(&bytes[17]);
  if (length > kMostMessageBytes || bytes.size() != kHead + length)
    return "a message of another length than it says";
  if (length != 0 && !carries_bytes(message.kind)) return "a message with bytes where none belong";
  if (message.generation != 0 && message.kind != EdgeMessage::Kind::ready)
    return "a message with a generation where none belongs";
  message.bytes.assign(bytes.begin() + kHead, bytes.end());
  out = std::move(message);
  return nullptr;
}

}  // namespace gossamer::dist
