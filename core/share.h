// Things that are shared out in turn.
#pragma once

#include "gossamer/core/dtype.h"

namespace gossamer {

// How many of `total` go to the place `part` of `parts`: places below it get as many, or one more.
constexpr i64 share_of(i64 total, i64 part, i64 parts) {
  return total / parts + (part < total % parts ? 1 : 0);
}

}  // namespace gossamer
