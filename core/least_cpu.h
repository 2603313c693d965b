// The least CPU that this is compiled for.
// Threads: any.
#pragma once

namespace gossamer::cpu {

// Null, or a sentence that says which instructions this CPU lacks. It may be called on any CPU, and
// before anything else of the program runs.
const char* cpu_is_too_old() noexcept;
void check_cpu();  // DeviceError of that sentence

}  // namespace gossamer::cpu
