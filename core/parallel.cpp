// parallel_for on OpenMP, the pool that oneDNN uses too: kernels and vendor calls never compete for
// cores.
#include "gossamer/core/parallel.h"

#include <algorithm>
#include <exception>

#include <omp.h>

#include "gossamer/core/error.h"

namespace gossamer {

void set_compute_threads(int n) {
  check<ConfigError>(n >= 1, "threads: ", n, " is not a number of compute threads; use 1 or more");
  omp_set_num_threads(n);
}
int compute_threads() { return omp_get_max_threads(); }

void parallel_for(i64 n, i64 grain, FunctionRef<void(i64, i64)> body) {
  if (n <= 0) return;
  const i64 pieces = std::min<i64>(compute_threads(), n / std::max<i64>(grain, 1));
  if (pieces <= 1 || omp_in_parallel()) {
    body(0, n);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel for num_threads(static_cast <int>(pieces)) schedule(static, 1)
  for (i64 p = 0; p < pieces; ++p) {
    try {
      body(n * p / pieces, n * (p + 1) / pieces);
    } catch (...) {
#pragma omp critical(gossamer_parallel_for)
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace gossamer
