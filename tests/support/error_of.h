// The text of the error that a call throws.
#pragma once

#include <string>
#include <utility>

#include "gossamer/core/error.h"

namespace gossamer {

// "no error" if nothing is thrown. Anything but an E goes on, to the test's runner.
template <class E = Error, class F>
std::string error_of(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const E& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace gossamer
