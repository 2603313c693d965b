// Evaluation takes as many rows at a time as there is memory for.
#pragma once

#include "gossamer/core/device.h"
#include "gossamer/core/dtype.h"
#include "gossamer/core/free_memory.h"
#include "gossamer/core/memory.h"

namespace gossamer::apps {

// once(batch); where memory does not suffice, again with half the batch, from the beginning.
// OutOfMemory: for one row neither.
template <class F>
auto with_fitting_batch(i64 batch, Device device, F&& once) {
  for (;;) {
    try {
      return once(batch);
    } catch (const OutOfMemory&) {
      if (batch == 1) throw;
      release_cached(device);
      batch = (batch + 1) / 2;
    }
  }
}

}  // namespace gossamer::apps
