// CPU threads for kernels.
// Threads: any; the number of compute threads is each calling thread's own.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "gossamer/core/dtype.h"

namespace gossamer {

// How many threads a kernel that the calling thread runs may use, the caller included. They come
// from one pool (parallel.cpp). n >= 1; unless set, usable_cores().count (cores.h).
void set_compute_threads(int n);
int compute_threads();

// A borrowed callable: valid only during the call it is passed to.
template <class>
class FunctionRef;
template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // NOLINT(google-explicit-constructor): a parameter type
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* o, A... a) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(o))(std::forward<A>(a)...);
        }) {}
  R operator()(A... a) const { return call_(object_, std::forward<A>(a)...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

// Runs body(begin, end) over disjoint pieces of [0, n), at least `grain` long, on compute_threads()
// threads, at most 1,024. A call from inside a piece runs body(0, n) itself. The split depends on
// n, grain and the thread count only. If pieces throw, the exception of the first of them is
// rethrown here.
void parallel_for(i64 n, i64 grain, FunctionRef<void(i64, i64)> body);

}  // namespace gossamer
