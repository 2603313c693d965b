// `gossamer report`.
#include "gossamer/apps/report/report.h"

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/text/json.h"

namespace gossamer::apps {

int report_runs(const ReportCommand& command) {
  std::vector<RunRecord> runs;
  for (const std::string& folder : command.runs) runs.push_back(read_run(folder));
  std::filesystem::path page = command.out;
  if (page.empty())
    page = runs.size() > 1 ? std::filesystem::path("comparison.html")
                           : std::filesystem::path(command.runs[0]) / "report.html";
  if (runs.size() > 1)
    write_comparison(runs, page);
  else if (command.out.empty())
    write_report(runs[0], command.runs[0]);
  else
    write_page(runs[0], command.runs[0], page);
  if (command.json) {
    std::vector<std::string> outcomes;
    for (const RunRecord& run : runs) outcomes.push_back(run.outcome);
    print(fmt::format("{}\n",
                      JsonObject().add("page", page.string()).add("outcomes", outcomes).str()));
    return 0;
  }
  for (const RunRecord& run : runs) print(fmt::format("{}: {}\n", run.name, run.outcome));
  print(fmt::format("{}\n", page.string()));
  return 0;
}

}  // namespace gossamer::apps
