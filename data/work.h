// Work on each sample of a data set by several threads, for the commands that go through all of it.
#pragma once

#include <cstddef>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/core/parallel.h"

namespace gossamer::data {

// work(i, buffer) for begin <= i < end on `threads` threads, each with a buffer of its own;
// tick(done) about ten times a second on this thread, and false from it ends the work early. False:
// it ended early. The first exception of a thread ends the work too and is thrown here.
bool for_each_sample(i64 begin, i64 end, int threads,
                     FunctionRef<void(i64, std::vector<std::byte>&)> work,
                     FunctionRef<bool(i64)> tick);

}  // namespace gossamer::data
