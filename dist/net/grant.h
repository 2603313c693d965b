// What the launcher says about a worker, so that no other worker can say it: "this key is worker 2,
// and it is the second process that I started as such". It signs that with a key of its own
// (Ed25519, RFC 8032), whose public half all workers know from the start. Private to dist/ and
// apps/launch/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gossamer::dist {

// An Ed25519 key. All zero: there is none.
using PublicKey = std::array<std::uint8_t, 32>;
struct KeyPair {
  std::array<std::uint8_t, 32> seed{};  // the private key
  PublicKey key{};
};
KeyPair new_key_pair();  // DistError: OpenSSL cannot

struct Grant {
  std::uint32_t rank = 0;
  std::uint32_t generation = 0;  // processes that were started as this rank before it
  PublicKey key{};               // of the process
  std::array<std::uint8_t, 64> signature{};
};
constexpr std::size_t kGrantBytes = 4 + 4 + 32 + 64;
Grant sign(const KeyPair& launcher, std::uint32_t rank, std::uint32_t generation,
           const PublicKey& key);
bool genuine(const Grant&, const PublicKey& launcher);

std::vector<std::uint8_t> encode(const Grant&);
std::optional<Grant> decode_grant(std::span<const std::uint8_t>);  // nothing: it is none

// What a launcher gives to one worker in GOSSAMER_GRANT: its key pair, the grant, and the
// launcher's public key.
struct Identity {
  KeyPair own;
  Grant grant;
  PublicKey launcher{};
};
std::string new_identity(const KeyPair& launcher, std::uint32_t rank, std::uint32_t generation);
Identity identity(const std::string& text);  // ConfigError: it is none

}  // namespace gossamer::dist
