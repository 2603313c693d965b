// libFuzzer: trace.json of a run, through the reader that predictions begin with: times that are
// numbers, or an error that names the file.
//
// sources: trace_times json_values nesting
#include "gossamer/apps/report/trace_times.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gossamer/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer;
  apps::TraceTimes times;
  try {
    times =
        apps::parse_trace_times(std::string(reinterpret_cast<const char*>(data), size), "t.json");
  } catch (const Error& e) {
    if (!std::string_view(e.what()).starts_with("t.json")) std::abort();
    return 0;
  }
  if (times.workers.empty() || times.machines < 1) std::abort();
  for (const apps::StepTimes& w : times.workers)
    if (w.steps < 1 || !std::isfinite(w.step_s) || !std::isfinite(w.exposed_s) ||
        !std::isfinite(w.spread))
      std::abort();
  for (const double s : times.transfers_s)
    if (!std::isfinite(s)) std::abort();
  return 0;
}
