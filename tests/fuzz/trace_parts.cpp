// libFuzzer: trace.json of a run, as its report shows it: JSON that the player reads and that
// cannot end the script element around it.
//
// sources: trace_parts json_values nesting
// libraries: -lfmt
#include "gossamer/apps/report/trace_parts.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer;
  const apps::TraceParts parts = apps::trace_parts({reinterpret_cast<const char*>(data), size});
  if (parts.json.find('<') != std::string::npos) std::abort();
  if (parts.count > apps::TraceParts::most) std::abort();
  if (parts.count == 0) return 0;
  const nlohmann::json read = nlohmann::json::parse(parts.json, nullptr, false);
  if (!read.is_object() || read["traceEvents"].size() != parts.count) std::abort();
  double last = -INFINITY;
  for (const nlohmann::json& e : read["traceEvents"]) {
    const double begin = e["ts"];
    if (begin < last || e["dur"] < 0) std::abort();
    last = begin;
  }
  return 0;
}
