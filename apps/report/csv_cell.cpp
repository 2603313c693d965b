// See csv_cell.h.
#include "gossamer/apps/report/csv_cell.h"

#include <string_view>

namespace gossamer::apps {

std::string csv_cell(const std::string& given) {
  const bool formula =
      !given.empty() && std::string_view("=+-@\t\r").find(given[0]) != std::string::npos;
  std::string text = formula ? "'" + given : given;
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace gossamer::apps
