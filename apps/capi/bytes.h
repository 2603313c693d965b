// Bytes of the library's as a handle of gossamer.h.
#pragma once

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

}  // namespace gossamer::capi
