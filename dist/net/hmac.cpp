// See hmac.h.
#include "gossamer/dist/net/hmac.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "gossamer/core/error.h"

namespace gossamer::dist {

Code hmac(std::span<const std::uint8_t> key, std::span<const std::uint8_t> message) {
  Code code{};
  unsigned length = 0;
  check<DistError>(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), message.data(),
                        message.size(), code.data(), &length) != nullptr &&
                       length == code.size(),
                   "OpenSSL cannot compute HMAC-SHA-256; is its configuration whole?");
  return code;
}

}  // namespace gossamer::dist
