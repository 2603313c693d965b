// For tests: memory that holds NaN until it is written, so that a number that is read before shows.
#pragma once

namespace gossamer {

// Whether memory that is given out, and on a CPU also what comes back, is filled with bytes of
// kPoison: NaN in every floating type, -1 in the others. Off, unless the build says otherwise
// (-DGOSSAMER_POISON=ON).
void poison_memory(bool);
bool memory_is_poisoned();
inline constexpr unsigned char kPoison = 0xff;

}  // namespace gossamer
