// libFuzzer: a stranger where TLS is spoken. The first byte of the input chooses: raw bytes to
// either side; a handshake of two honest sides, of which some bytes are changed, left out or said
// twice on the way; or a caller whose certificate shows any bytes as the launcher's grant.
//
// sources: tls grant hmac
// libraries: -lssl -lcrypto
#include "gossamer/dist/net/tls.h"

#include <cstdlib>
#include <span>
#include <vector>

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "gossamer/core/error.h"

using namespace gossamer;
using namespace gossamer::dist;

namespace {

using Bytes = std::vector<std::uint8_t>;

void require(bool right) {
  if (!right) std::abort();
}

// One side of a connection, whose bytes come and go in memory.
class Party {
 public:
  Party(Tls::Session session, bool server) : ssl_(std::move(session)) {
    SSL_set_bio(ssl_.get(), in_ = BIO_new(BIO_s_mem()), out_ = BIO_new(BIO_s_mem()));
    server ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
  }
  // Hears bytes, and returns what it says to them.
  Bytes hear(std::span<const std::uint8_t> bytes) {
    if (!bytes.empty()) BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
    done_ = done_ || SSL_do_handshake(ssl_.get()) == 1;
    if (done_) {
      char some[256];
      while (SSL_read(ssl_.get(), some, sizeof some) > 0) {
      }
    }
    (void)tls_error();
    Bytes said(BIO_ctrl_pending(out_));
    if (!said.empty()) BIO_read(out_, said.data(), static_cast<int>(said.size()));
    return said;
  }
  bool done() const { return done_; }
  ssl_st* ssl() const { return ssl_.get(); }

 private:
  Tls::Session ssl_;
  BIO *in_ = nullptr, *out_ = nullptr;  // of the session
  bool done_ = false;
};

KeyPair pair_of(std::uint8_t number) {
  KeyPair pair{};
  pair.seed.fill(number);
  EVP_PKEY* key =
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, pair.seed.data(), pair.seed.size());
  std::size_t size = pair.key.size();
  require(EVP_PKEY_get_raw_public_key(key, pair.key.data(), &size) == 1);
  EVP_PKEY_free(key);
  return pair;
}

// What is done to the bytes of a flight: three bytes of the input for each.
class Meddler {
 public:
  explicit Meddler(std::span<const std::uint8_t> plan) : plan_(plan) {}
  void change(Bytes& flight) {
    if (plan_.size() < 4 || flight.empty()) return;
    const std::size_t at = (plan_[1] << 8 | plan_[2]) % flight.size();
    const auto place = flight.begin() + static_cast<std::ptrdiff_t>(at);
    switch (plan_[0] % 5) {
      case 0:
        break;  // passes on
      case 1:
        *place ^= plan_[3];
        break;
      case 2:
        flight.resize(at);
        break;
      case 3:
        flight.insert(place, plan_[3]);
        break;
      default: {
        const Bytes again(flight.begin(), place);
        flight.insert(flight.end(), again.begin(), again.end());
      }
    }
    plan_ = plan_.subspan(4);
  }

 private:
  std::span<const std::uint8_t> plan_;
};

// Whoever has finished on both sides speaks with the other one, and nobody is in between.
void shake_hands(Party& door, Party& caller, std::span<const std::uint8_t> plan) {
  Meddler meddler(plan);
  Bytes flight = caller.hear({});
  for (int i = 0; i < 12 && !flight.empty(); ++i) {
    meddler.change(flight);
    flight = (i % 2 ? caller : door).hear(flight);
  }
  if (plan.size() < 4) require(door.done() && caller.done());
  if (door.done() && caller.done()) require(binding(door.ssl()) == binding(caller.ssl()));
}

// A caller with any comment in its certificate.
struct Stranger {
  SSL_CTX* context = SSL_CTX_new(TLS_method());
  X509* shown = X509_new();
  Stranger(const KeyPair& pair, std::span<const std::uint8_t> comment) {
    EVP_PKEY* key =
        EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, pair.seed.data(), pair.seed.size());
    X509_set_version(shown, X509_VERSION_3);
    X509_gmtime_adj(X509_getm_notBefore(shown), 0);
    X509_gmtime_adj(X509_getm_notAfter(shown), 3600);
    X509_set_pubkey(shown, key);
    ASN1_IA5STRING* text = ASN1_IA5STRING_new();
    ASN1_STRING_set(text, comment.data(), static_cast<int>(comment.size()));
    X509_add1_ext_i2d(shown, NID_netscape_comment, text, 0, X509V3_ADD_DEFAULT);
    ASN1_IA5STRING_free(text);
    require(X509_sign(shown, key, nullptr) > 0);
    SSL_CTX_use_certificate(context, shown);
    SSL_CTX_use_PrivateKey(context, key);
    EVP_PKEY_free(key);
  }
  ~Stranger() {
    X509_free(shown);
    SSL_CTX_free(context);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const Tls door_of(pair_of(1)), caller_of(pair_of(2));
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
    case 1: {
      Party side(door_of.session(), data[0] % 4 == 0);
      (void)side.hear({});
      (void)side.hear(rest);
      require(!side.done());  // it has no key of ours to sign with
      break;
    }
    case 2: {
      Party door(door_of.session(), true), caller(caller_of.session(), false);
      shake_hands(door, caller, rest);
      break;
    }
    default: {
      const Stranger stranger(pair_of(3), rest);
      Party door(door_of.session(), true), caller(Tls::Session(SSL_new(stranger.context)), false);
      Bytes flight = caller.hear({});
      for (int i = 0; i < 12 && !flight.empty(); ++i) flight = (i % 2 ? caller : door).hear(flight);
      if (!door.done()) {
        require(rest.size() > 3000);  // of the 4096 that a certificate may have
        break;
      }
      require(peer_key(door.ssl()) == pair_of(3).key);
      if (const auto grant = peer_grant(door.ssl())) require(grant->key == pair_of(3).key);
    }
  }
  return 0;
}
