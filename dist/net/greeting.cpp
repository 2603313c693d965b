// See greeting.h.
#include "gossamer/dist/net/greeting.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <openssl/crypto.h>
#include <sys/random.h>
#include <unistd.h>

#include "gossamer/core/error.h"

namespace gossamer::dist::greeting {
namespace {

// Each code has a purpose of its own, so that none can be sent back in another's place.
Code code(const wire::Token& token, std::uint8_t purpose, std::uint32_t door,
          std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  wire::Bytes message{purpose};
  for (int shift = 0; shift < 32; shift += 8)
    message.push_back(static_cast<std::uint8_t>(door >> shift));
  message.insert(message.end(), a.begin(), a.end());
  message.insert(message.end(), b.begin(), b.end());
  return hmac(token, message);
}

}  // namespace

Nonce fresh() {
  Nonce nonce;
  const bool drawn = getentropy(nonce.data(), nonce.size()) == 0;
  check<DistError>(drawn, "no random numbers from the kernel: ", std::strerror(errno));
  return nonce;
}

std::uint64_t fresh_number() {
  std::uint64_t number = 0;
  while (number == 0) {
    const Nonce nonce = fresh();
    std::memcpy(&number, nonce.data(), sizeof number);
  }
  return number;
}

wire::Token bound(const wire::Token& token, const Code& binding) { return hmac(token, binding); }

wire::Bytes hello(const wire::Token& token, const Nonce& challenge, const wire::Frame& frame,
                  const Nonce& own, std::uint32_t called) {
  wire::Bytes out = wire::encode(frame);
  out.insert(out.end(), own.begin(), own.end());
  const Code proof = code(token, 'd', called, challenge, out);
  out.insert(out.end(), proof.begin(), proof.end());
  return out;
}

bool proves(const wire::Token& token, const Nonce& challenge,
            std::span<const std::uint8_t, kHelloBytes> bytes, std::uint32_t door) {
  const auto meant_for = [&](std::uint32_t called) {
    return same(code(token, 'd', called, challenge, bytes.first(kHelloBytes - sizeof(Code))),
                bytes.last(sizeof(Code)));
  };
  return meant_for(door) || meant_for(kAnyone);
}

Nonce nonce_of(std::span<const std::uint8_t, kHelloBytes> bytes) {
  Nonce nonce;
  std::copy_n(bytes.begin() + wire::kFrameBytes, nonce.size(), nonce.begin());
  return nonce;
}

Code answer(const wire::Token& token, const Nonce& challenge, const Nonce& dialer,
            std::uint32_t door) {
  return code(token, 'a', door, dialer, challenge);
}

bool same(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::uint64_t connection_id(const wire::Token& token, const Nonce& challenge, const Nonce& dialer) {
  const Code c = code(token, 'c', 0, challenge, dialer);
  std::uint64_t id = 0;
  for (std::size_t i = 0; i < 8; ++i) id |= static_cast<std::uint64_t>(c[i]) << (8 * i);
  return id;
}

}  // namespace gossamer::dist::greeting
