// See trace_parts.h.
#include "gossamer/apps/report/trace_parts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "gossamer/apps/report/json_values.h"
#include "gossamer/core/text/json.h"

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;

struct Part {
  double begin = 0, duration = 0;  // microseconds
  int worker = 0;
  const char* name = "";
};

// The player's name for a slice, or nullptr if it does not show it.
const char* known(const std::string& name) {
  if (name == "step") return "step";
  if (name == "transfer") return "transfer";
  return name == "meet" || name.starts_with("wait ") ? "meet" : nullptr;
}

}  // namespace

TraceParts trace_parts(std::string_view trace) {
  TraceParts out;
  const Json json = parse_json<Json>(trace);
  if (!json.is_object() || !json.contains("traceEvents") || !json["traceEvents"].is_array())
    return out;
  std::vector<Part> parts;
  for (const Json& e : json["traceEvents"]) {
    if (text(e, "ph") != "X") continue;
    const Part part{number(e, "ts"), number(e, "dur"), whole(e, "pid"), known(text(e, "name"))};
    if (part.name && std::isfinite(part.begin) && std::isfinite(part.duration) &&
        part.duration >= 0)
      parts.push_back(part);
  }
  std::ranges::sort(parts, {}, &Part::begin);
  out.all = parts.size() <= TraceParts::most;
  if (!out.all) parts.resize(TraceParts::most);
  out.count = parts.size();
  for (const Part& p : parts)
    out.json +=
        fmt::format("{}{{\"ph\":\"X\",\"pid\":{},\"name\":\"{}\",\"ts\":{:.0f},\"dur\":{:.0f}}}",
                    out.json.empty() ? "" : ",", p.worker, p.name, p.begin, p.duration);
  out.json = "{\"traceEvents\":[" + out.json + "]}";
  return out;
}

}  // namespace gossamer::apps
