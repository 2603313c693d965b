// Where a loader stands.
#pragma once

#include "gossamer/core/dtype.h"
#include "gossamer/core/error.h"

namespace gossamer::data {

// loader: its name in the error. ConfigError if an epoch of `steps` batches has no such step.
inline void check_seek(const char* loader, i64 epoch, i64 step, i64 steps) {
  check<ConfigError>(epoch >= 0 && step >= 0 && step <= steps, loader, ": seek to epoch ", epoch,
                     ", step ", step, "; an epoch has ", steps, " steps");
}

struct Position {
  i64 epoch = 0, step = 0;  // of the next batch
  // True behind the last batch of an epoch, once; then the next epoch begins.
  bool epoch_is_over(i64 steps) {
    if (step < steps) return false;
    *this = {epoch + 1, 0};
    return true;
  }
};

}  // namespace gossamer::data
