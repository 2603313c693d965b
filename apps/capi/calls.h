// Which library answers a program's calls: this one, or libgossamer-cuda.so.0, which holds all of
// it once more, built with CUDA (apps/cuda_module.h). Each exported function of gossamer.h passes
// its arguments on to calls(): forward.cmake writes them from the table in gossamer_table.h. What
// is behind them in this library has other names, own_gsm_…, by own_names.h. Threads: any.
#pragma once

#include <string>

#include "gossamer/apps/capi/gossamer.h"

namespace gossamer::capi {

// Chosen by the first call. A library on its own has no handles of the other one.
const gsm_api& calls() noexcept;
// What is wrong with a module that is there but can't be used; else "".
const std::string& why_no_module();

}  // namespace gossamer::capi
