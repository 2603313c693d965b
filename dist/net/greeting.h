// How two workers prove to each other that they know the job's token, before a byte of one is
// parsed by the other. Pure functions over bytes. Private to dist/.
//
//   door   -> dialer   challenge: 16 random bytes
//   dialer -> door     hello frame (64), 16 random bytes of its own, code over (challenge, hello,
//                      own bytes, the worker that is called)
//   door   -> dialer   code over (own bytes of the dialer, challenge, the worker that answers);
//                      then frames
//
// The codes are HMAC-SHA-256 under the token, so it never travels; fresh random bytes on both
// sides make every code good for one connection only. Both name the worker at the door: a stranger
// who listens where a dead worker did can't let another worker's door, or the caller's own, answer
// for it. Where the job encrypts, TLS comes first, and the codes cover it. Elsewhere, what follows
// is neither encrypted nor signed: an attacker who can change packets on the wire is not kept out.
#pragma once

#include "gossamer/dist/net/hmac.h"
#include "gossamer/dist/net/wire.h"

namespace gossamer::dist::greeting {

using Nonce = std::array<std::uint8_t, 16>;
constexpr std::size_t kHelloBytes = wire::kFrameBytes + sizeof(Nonce) + sizeof(Code);
constexpr std::uint32_t kAnyone = 0xffffffff;  // as the worker that is called: whoever answers

Nonce fresh();                 // from the kernel's generator; DistError when it has none
std::uint64_t fresh_number();  // not 0

// The key of the codes on one connection, in place of the token: whoever ends the connection in the
// middle has another binding (tls.h) towards each side, so no code of one is good for the other.
// All zero where nothing is encrypted.
wire::Token bound(const wire::Token&, const Code& binding);

wire::Bytes hello(const wire::Token&, const Nonce& challenge, const wire::Frame&, const Nonce& own,
                  std::uint32_t called);
// Whether these bytes prove the token to the door of worker `door`: looks at nothing but the code,
// in constant time.
bool proves(const wire::Token&, const Nonce& challenge, std::span<const std::uint8_t, kHelloBytes>,
            std::uint32_t door);
Nonce nonce_of(std::span<const std::uint8_t, kHelloBytes>);

Code answer(const wire::Token&, const Nonce& challenge, const Nonce& dialer, std::uint32_t door);
bool same(std::span<const std::uint8_t>, std::span<const std::uint8_t>);  // constant time

// The name of this connection: both ends know it, nobody else can guess it.
std::uint64_t connection_id(const wire::Token&, const Nonce& challenge, const Nonce& dialer);

}  // namespace gossamer::dist::greeting
