// See trace_player.h.
#include "gossamer/apps/report/trace_player.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "gossamer/apps/lesson/page.h"
#include "gossamer/apps/report/json_values.h"

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMost = 4000;  // parts that a browser moves through without delay

struct Part {
  double begin = 0, duration = 0;  // microseconds
  int worker = 0;
  const char* name = "";
};

// As the player calls it, or nullptr.
const char* known(const std::string& name) {
  if (name == "step") return "step";
  if (name == "transfer") return "transfer";
  return name == "meet" || name.starts_with("wait ") ? "meet" : nullptr;
}

}  // namespace

std::string trace_player(const std::filesystem::path& folder) {
  std::ifstream in(folder / "trace.json", std::ios::binary);
  if (!in.good()) return "";
  const Json trace = Json::parse(in, nullptr, false);
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array())
    return "";
  std::vector<Part> parts;
  for (const Json& e : trace["traceEvents"]) {
    if (text(e, "ph") != "X") continue;
    const Part part{number(e, "ts"), number(e, "dur"), whole(e, "pid"), known(text(e, "name"))};
    if (part.name && std::isfinite(part.begin) && std::isfinite(part.duration) &&
        part.duration >= 0)
      parts.push_back(part);
  }
  if (parts.empty()) return "";
  std::ranges::sort(parts, {}, &Part::begin);
  const bool all = parts.size() <= kMost;
  if (!all) parts.resize(kMost);
  std::string list;
  for (const Part& p : parts)
    list +=
        fmt::format("{}{{\"ph\":\"X\",\"pid\":{},\"name\":\"{}\",\"ts\":{:.0f},\"dur\":{:.0f}}}",
                    list.empty() ? "" : ",", p.worker, p.name, p.begin, p.duration);
  return "<h2>Who waits</h2><section id=\"parts\"></section><p class=\"soft\">A lane for each "
         "worker" +
         (all ? std::string(".") : fmt::format("; the first {} parts.", kMost)) +
         " Drag the line, or use its slider or the arrow keys.</p>" + std::string(lesson_player()) +
         "<script type=\"application/json\" id=\"trace\">{\"traceEvents\":[" + list +
         "]}</script><script>player(document.getElementById(\"parts\")).open("
         "document.getElementById(\"trace\").textContent, \"trace.json\");</script>";
}

}  // namespace gossamer::apps
