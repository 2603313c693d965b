// What the cores can do at most, as the measure of a kernel: multiply-adds without anything around
// them, and a plain copy. A machine's speed changes from second to second, so both run in turn with
// what they are the measure of.
#pragma once

#include "gossamer/core/parallel.h"

namespace gossamer::bench {

// Seconds on one thread: the CPU time of that thread, which other programs change little; on
// several: wall time.
double seconds_now(int threads);

// The most floating-point operations that `threads` threads can do, in f32 and the vectors of the
// kernels in use (core/cpu/kernel_sets.h): runs `turns` turns of a loop of multiply-adds whose sums
// stay in registers, on each of them, and returns how many operations these were.
double fma_loop(int threads, i64 turns);

// Best of the calls within `seconds`, at least three, of a pass and of what it is measured by.
struct Speed {
  double rate, peak;  // operations a second, or bytes
  double share() const { return rate / peak; }
};
Speed against_fma(double operations, int threads, double seconds, FunctionRef<void()> pass);
// bytes: what the pass reads and writes; the copy moves as many, half of them read.
Speed against_copy(double bytes, int threads, double seconds, FunctionRef<void()> pass);

}  // namespace gossamer::bench
