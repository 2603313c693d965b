// See trace_player.h.
#include "gossamer/apps/report/trace_player.h"

#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "gossamer/apps/lesson/page.h"
#include "gossamer/apps/report/trace_parts.h"

namespace gossamer::apps {

std::string trace_player(const std::filesystem::path& folder) {
  std::ifstream in(folder / "trace.json", std::ios::binary);
  const TraceParts parts = trace_parts(
      std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()));
  if (parts.count == 0) return "";
  return "<h2>Who waits</h2><section id=\"parts\"></section><p class=\"soft\">A lane for each "
         "worker" +
         (parts.all ? std::string(".") : fmt::format("; the first {} parts.", parts.count)) +
         " Drag the line, or use its slider or the arrow keys.</p>" + std::string(lesson_player()) +
         "<script type=\"application/json\" id=\"trace\">" + parts.json +
         "</script><script>player(document.getElementById(\"parts\")).open("
         "document.getElementById(\"trace\").textContent, \"trace.json\");</script>";
}

}  // namespace gossamer::apps
