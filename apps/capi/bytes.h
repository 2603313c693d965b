// Bytes of the library's as a handle of gossamer.h.
#pragma once

#include <span>
#include <string>

#include "gossamer/apps/capi/objects.h"

namespace gossamer::capi {

struct Bytes final : Object {
  explicit Bytes(std::string of) : bytes(std::move(of)) {}
  const std::string bytes;
};

inline gsm_bytes* give_bytes(std::string bytes) {
  return static_cast<gsm_bytes*>(add_object(std::make_shared<Bytes>(std::move(bytes))));
}

// Bytes of the caller's.
inline std::span<const std::byte> given_bytes(const void* bytes, std::size_t size) {
  check_given("bytes", bytes);
  return {static_cast<const std::byte*>(bytes), size};
}
inline const std::string kGivenBytes = "the bytes that were given";

}  // namespace gossamer::capi
