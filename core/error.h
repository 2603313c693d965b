// Errors of the library. Nothing below apps/ prints, exits or aborts: it throws one of these.
// The text names what was given, what was wanted (both shapes, the file, the option, the rank) and
// what to do. It names options and functions as the public headers do (`label_base`, `tokenize`),
// never the program's key, flag or command (data.label_base, --label-base, gossamer data tokenize):
// those end in the same word.
// Threads: any.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace gossamer {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// shapes or types do not fit
struct ShapeError : Error {
  using Error::Error;
};
// an option or name the user wrote           (exit code 2)
struct ConfigError : Error {
  using Error::Error;
};
// a data set or an image                      (exit code 3)
struct DataError : Error {
  using Error::Error;
};
// no such device, out of memory, vendor call  (exit code 4)
struct DeviceError : Error {
  using Error::Error;
};
// a peer is gone, late, or disagrees          (exit code 5)
struct DistError : Error {
  using Error::Error;
};
// a checkpoint or result file, a full disk    (exit code 6)
struct IoError : Error {
  using Error::Error;
};

// Throws E with all parts joined: fail<ShapeError>("matmul: a is ", a.shape(), "; …").
template <class E = Error, class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw E(text.str());
}

// As fail() when ok is false. The text is only built then.
template <class E = Error, class... Parts>
void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail<E>(parts...);
}

}  // namespace gossamer
