// See tls.h.
#include "gossamer/dist/net/tls.h"

#include <string>
#include <string_view>
#include <vector>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

template <auto function>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    function(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;

void must(bool right, const char* what) {
  if (!right) fail<DistError>("OpenSSL cannot ", what, ": ", tls_error());
}

PublicKey public_part(const EVP_PKEY* key) {
  PublicKey bytes{};
  std::size_t length = bytes.size();
  must(key != nullptr && EVP_PKEY_get_raw_public_key(key, bytes.data(), &length) == 1 &&
           length == bytes.size(),
       "read a public key");
  return bytes;
}

using Comment = std::unique_ptr<ASN1_IA5STRING, Freed<ASN1_IA5STRING_free>>;

// Signed by its own key: it says which key this is, and shows the launcher's grant, if there is
// one, as a comment. Its dates are of no account.
Certificate self_signed(EVP_PKEY* key, const std::optional<Grant>& grant) {
  Certificate made(X509_new());
  must(made && X509_set_version(made.get(), X509_VERSION_3) == 1 &&
           ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(made.get()), 0) != nullptr &&
           X509_gmtime_adj(X509_getm_notAfter(made.get()), 365L * 24 * 3600) != nullptr &&
           X509_set_pubkey(made.get(), key) == 1,
       "make a certificate");
  if (grant) {
    const std::vector<std::uint8_t> bytes = encode(*grant);
    const Comment comment(ASN1_IA5STRING_new());
    must(comment &&
             ASN1_STRING_set(comment.get(), bytes.data(), static_cast<int>(bytes.size())) == 1 &&
             X509_add1_ext_i2d(made.get(), NID_netscape_comment, comment.get(), 0,
                               X509V3_ADD_DEFAULT) == 1,
         "write a grant into a certificate");
  }
  must(X509_sign(made.get(), key, nullptr) > 0, "sign a certificate");
  return made;
}

// A certificate of one Ed25519 key, from whomever: the greeting decides who it is.
int of_one_key(X509_STORE_CTX* chain, void*) {
  const X509* const shown = X509_STORE_CTX_get0_cert(chain);
  const bool right = shown != nullptr && EVP_PKEY_is_a(X509_get0_pubkey(shown), "ED25519") == 1;
  X509_STORE_CTX_set_error(chain, right ? X509_V_OK : X509_V_ERR_CERT_UNTRUSTED);
  return right ? 1 : 0;
}

void append(std::vector<std::uint8_t>& to, const X509* certificate) {
  unsigned char* bytes = nullptr;
  const int length = i2d_X509(certificate, &bytes);
  must(length > 0, "read a certificate");
  for (int shift = 0; shift < 32; shift += 8)
    to.push_back(static_cast<std::uint8_t>(static_cast<unsigned>(length) >> shift));
  to.insert(to.end(), bytes, bytes + length);
  OPENSSL_free(bytes);
}

}  // namespace

void Tls::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }
void Tls::Free::operator()(ssl_st* session) const { SSL_free(session); }

Tls::Tls(const KeyPair& pair, const std::optional<Grant>& grant)
    : context_(SSL_CTX_new(TLS_method())), own_(pair.key) {
  const Key key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, pair.seed.data(), pair.seed.size()));
  must(context_ && key && public_part(key.get()) == own_, "use its key");
  SSL_CTX* const c = context_.get();
  must(SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") == 1 &&
           SSL_CTX_set1_groups_list(c, "X25519") == 1 &&
           SSL_CTX_set1_sigalgs_list(c, "ed25519") == 1 &&
           SSL_CTX_set1_client_sigalgs_list(c, "ed25519") == 1 &&
           SSL_CTX_set_num_tickets(c, 0) == 1 && SSL_CTX_set_max_early_data(c, 0) == 1,
       "be set to TLS 1.3");
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(c, 4096);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(c, of_one_key, nullptr);
  const Certificate certificate = self_signed(key.get(), grant);
  must(SSL_CTX_use_certificate(c, certificate.get()) == 1 &&
           SSL_CTX_use_PrivateKey(c, key.get()) == 1,
       "use its own certificate");
}

Tls::Session Tls::session() const {
  Session made(SSL_new(context_.get()));
  must(made != nullptr, "begin a connection");
  return made;
}

PublicKey peer_key(const ssl_st* session) {
  const X509* const shown = SSL_get0_peer_certificate(session);
  check<DistError>(shown != nullptr, "the other side has shown no certificate");
  return public_part(X509_get0_pubkey(shown));
}

std::optional<Grant> peer_grant(const ssl_st* session) {
  const X509* const shown = SSL_get0_peer_certificate(session);
  if (shown == nullptr) return std::nullopt;
  const Comment comment(static_cast<ASN1_IA5STRING*>(
      X509_get_ext_d2i(shown, NID_netscape_comment, nullptr, nullptr)));
  if (!comment) return std::nullopt;
  auto grant = decode_grant({ASN1_STRING_get0_data(comment.get()),
                             static_cast<std::size_t>(ASN1_STRING_length(comment.get()))});
  return grant && grant->key == peer_key(session) ? grant : std::nullopt;
}

Code binding(ssl_st* session) {
  constexpr std::string_view kLabel = "EXPORTER-gossamer-greeting";
  Code exported{};
  must(SSL_export_keying_material(session, exported.data(), exported.size(), kLabel.data(),
                                  kLabel.size(), nullptr, 0, 0) == 1,
       "export a key of the connection");
  const X509 *const own = SSL_get_certificate(session), *const peer =
                                                            SSL_get0_peer_certificate(session);
  check<DistError>(own != nullptr && peer != nullptr, "a side has shown no certificate");
  // The exporter covers the server's certificate, but not the caller's.
  std::vector<std::uint8_t> both;
  append(both, SSL_is_server(session) ? own : peer);
  append(both, SSL_is_server(session) ? peer : own);
  return hmac(exported, both);
}

std::string tls_error() {
  std::string text;
  while (const unsigned long error = ERR_get_error()) {
    const char* const reason = ERR_reason_error_string(error);
    text = reason != nullptr ? reason : "error " + std::to_string(error);
  }
  return text.empty() ? "no reason given" : text;
}

}  // namespace gossamer::dist
