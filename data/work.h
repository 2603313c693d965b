// Several threads work through all samples of a data set, for the commands that read all of it.
#pragma once

#include <cstddef>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/core/parallel.h"

namespace gossamer::data {

// Calls work(i, buffer) for begin <= i < end on `threads` threads, each with a buffer of its own,
// and tick(done) about ten times a second on the calling thread. If tick returns false, the work
// stops early and so does this function, with false. An exception stops the work; that of the first
// sample that has one is thrown here, on any number of threads.
bool for_each_sample(i64 begin, i64 end, int threads,
                     FunctionRef<void(i64, std::vector<std::byte>&)> work,
                     FunctionRef<bool(i64)> tick);

}  // namespace gossamer::data
