// See grant.h.
#include "gossamer/dist/net/grant.h"

#include <algorithm>
#include <memory>

#include <openssl/evp.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/hexadecimal.h"

namespace gossamer::dist {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Context = std::unique_ptr<EVP_MD_CTX, Free>;
using Bytes = std::vector<std::uint8_t>;

void put(Bytes& to, std::uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8)
    to.push_back(static_cast<std::uint8_t>(number >> shift));
}
std::uint32_t number_at(std::span<const std::uint8_t, 4> bytes) {
  std::uint32_t number = 0;
  for (int i = 3; i >= 0; --i) number = number << 8 | bytes[static_cast<std::size_t>(i)];
  return number;
}

// What is signed; the words keep it from being taken for anything else.
Bytes statement(const Grant& g) {
  const std::string words = "gossamer grant 1";
  Bytes bytes(words.begin(), words.end());
  put(bytes, g.rank);
  put(bytes, g.generation);
  bytes.insert(bytes.end(), g.key.begin(), g.key.end());
  return bytes;
}

template <std::size_t n>
void take(std::span<const std::uint8_t>& from, std::array<std::uint8_t, n>& to) {
  std::copy_n(from.begin(), n, to.begin());
  from = from.subspan(n);
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

KeyPair new_key_pair() {
  KeyPair made;
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  std::size_t seed = made.seed.size(), length = made.key.size();
  check<DistError>(key != nullptr &&
                       EVP_PKEY_get_raw_private_key(key.get(), made.seed.data(), &seed) == 1 &&
                       EVP_PKEY_get_raw_public_key(key.get(), made.key.data(), &length) == 1,
                   "OpenSSL cannot make an Ed25519 key");
  return made;
}

Grant sign(const KeyPair& launcher, std::uint32_t rank, std::uint32_t generation,
           const PublicKey& key) {
  Grant g{.rank = rank, .generation = generation, .key = key};
  const Bytes bytes = statement(g);
  const Key own(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, launcher.seed.data(),
                                             launcher.seed.size()));
  const Context context(EVP_MD_CTX_new());
  std::size_t length = g.signature.size();
  check<DistError>(
      own && context &&
          EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, own.get()) == 1 &&
          EVP_DigestSign(context.get(), g.signature.data(), &length, bytes.data(), bytes.size()) ==
              1,
      "OpenSSL cannot sign");
  return g;
}

bool genuine(const Grant& g, const PublicKey& launcher) {
  const Bytes bytes = statement(g);
  const Key key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, launcher.data(), launcher.size()));
  const Context context(EVP_MD_CTX_new());
  return key && context &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), g.signature.data(), g.signature.size(), bytes.data(),
                          bytes.size()) == 1;
}

Bytes encode(const Grant& g) {
  Bytes bytes;
  put(bytes, g.rank);
  put(bytes, g.generation);
  bytes.insert(bytes.end(), g.key.begin(), g.key.end());
  bytes.insert(bytes.end(), g.signature.begin(), g.signature.end());
  return bytes;
}

std::optional<Grant> decode_grant(std::span<const std::uint8_t> bytes) {
  if (bytes.size() != kGrantBytes) return std::nullopt;
  Grant g{.rank = number_at(bytes.first<4>()), .generation = number_at(bytes.subspan<4, 4>())};
  bytes = bytes.subspan(8);
  take(bytes, g.key);
  take(bytes, g.signature);
  return g;
}

std::string new_identity(const KeyPair& launcher, std::uint32_t rank, std::uint32_t generation) {
  const KeyPair own = new_key_pair();
  Bytes bytes(own.seed.begin(), own.seed.end());
  bytes.insert(bytes.end(), launcher.key.begin(), launcher.key.end());
  const Bytes grant = encode(sign(launcher, rank, generation, own.key));
  bytes.insert(bytes.end(), grant.begin(), grant.end());
  return hexadecimal(bytes);
}

Identity identity(const std::string& text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    const int high = digit(text[i]), low = digit(text[i + 1]);
    if (high < 0 || low < 0) break;
    bytes.push_back(static_cast<std::uint8_t>(high << 4 | low));
  }
  Identity made;
  std::optional<Grant> grant;
  if (2 * bytes.size() == text.size() && bytes.size() == 64 + kGrantBytes) {
    std::span<const std::uint8_t> rest(bytes);
    take(rest, made.own.seed);
    take(rest, made.launcher);
    grant = decode_grant(rest);
  }
  check<ConfigError>(grant && genuine(*grant, made.launcher),
                     "GOSSAMER_GRANT is not what gossamer's launcher gives to a worker; only it "
                     "sets this variable");
  made.grant = *grant;
  made.own.key = grant->key;
  return made;
}

}  // namespace gossamer::dist
