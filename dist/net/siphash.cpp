// See siphash.h.
#include "gossamer/dist/net/siphash.h"

#include <bit>

namespace gossamer::dist {
namespace {

std::uint64_t load(const std::uint8_t* at, std::size_t bytes = 8) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= static_cast<std::uint64_t>(at[i]) << (8 * i);
  return value;
}

struct State {
  std::uint64_t v0, v1, v2, v3;
  void rounds(int n) {
    for (; n > 0; --n) {
      v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
      v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
    }
  }
  void take(std::uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
  std::uint64_t sum() const { return v0 ^ v1 ^ v2 ^ v3; }
};

}  // namespace

SipCode siphash(const SipKey& key, std::span<const std::uint8_t> message) {
  const std::uint64_t k0 = load(key.data()), k1 = load(key.data() + 8);
  State s{k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull ^ 0xee, k0 ^ 0x6c7967656e657261ull,
          k1 ^ 0x7465646279746573ull};
  std::size_t at = 0;
  for (; at + 8 <= message.size(); at += 8) s.take(load(message.data() + at));
  s.take(load(message.data() + at, message.size() - at) | static_cast<std::uint64_t>(message.size())
                                                              << 56);
  s.v2 ^= 0xee;
  s.rounds(4);
  const std::uint64_t low = s.sum();
  s.v1 ^= 0xdd;
  s.rounds(4);
  const std::uint64_t high = s.sum();
  SipCode code;
  for (std::size_t i = 0; i < 8; ++i) {
    code[i] = static_cast<std::uint8_t>(low >> (8 * i));
    code[8 + i] = static_cast<std::uint8_t>(high >> (8 * i));
  }
  return code;
}

}  // namespace gossamer::dist
