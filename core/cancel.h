// Work that another thread may end before it is done. A thread says which flag its work looks at;
// when the flag is set, the next kernel or picture of this thread throws Cancelled instead.
// Threads: each has a flag of its own; any may set one.
#pragma once

#include <atomic>

#include "gossamer/core/error.h"

namespace gossamer {

struct Cancelled : Error {
  using Error::Error;
};

// While one lives, this thread's work looks at the flag. What is written half when it ends must not
// matter: no update of parameters may run inside.
class CancelScope {
 public:
  explicit CancelScope(const std::atomic<bool>& flag);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  const std::atomic<bool>* outer_;
};

void check_cancelled();  // Cancelled: the flag of this thread is set

}  // namespace gossamer
