// Encryption of the connections between workers: TLS 1.3 (RFC 8446) by OpenSSL, with one cipher
// suite, fresh keys for each connection, no resumption and no early data. Both sides show a
// certificate; it says only which Ed25519 key (RFC 8032) a worker has. Whether the worker is one of
// this job is proved afterwards (greeting.h), by a code under the job's token that covers both
// certificates and this connection. Private to dist/.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/dist/net/grant.h"
#include "gossamer/dist/net/hmac.h"

struct ssl_ctx_st;
struct ssl_st;

namespace gossamer::dist {

enum class Side { caller, door };  // of a TCP connection: which one called the other

// A worker's key pair of this run, in memory only, and how it speaks TLS. Any thread.
class Tls {
 public:
  // grant: the certificate shows it. DistError: OpenSSL cannot.
  explicit Tls(const KeyPair& = new_key_pair(), const std::optional<Grant>& grant = {});
  const PublicKey& own() const { return own_; }

  struct Free {
    void operator()(ssl_ctx_st*) const;
    void operator()(ssl_st*) const;
  };
  using Session = std::unique_ptr<ssl_st, Free>;
  Session session() const;  // of one connection, without a socket

 private:
  std::unique_ptr<ssl_ctx_st, Free> context_;
  const PublicKey own_;
};

// How the members of a set encrypt among themselves: our key pair, and the key of each by its
// place. tls: null does not encrypt.
struct MemberKeys {
  std::shared_ptr<const Tls> tls;
  std::vector<PublicKey> of;
};

// After the handshake. The other side's key; it has proved that it holds the private one.
PublicKey peer_key(const ssl_st*);
// The grant that its certificate shows, for that key; whose it is, is not looked at.
std::optional<Grant> peer_grant(const ssl_st*);
// A number that only both ends of this connection have: of the TLS exporter (RFC 5705) and of both
// certificates. Somebody who ends the connection in the middle has another one towards each side.
Code binding(ssl_st*);
// What OpenSSL says about its last error on this thread, and forgets it.
std::string tls_error();

}  // namespace gossamer::dist
