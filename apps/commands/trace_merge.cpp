// `gossamer trace merge`.
#include "gossamer/apps/report/trace_merge.h"

#include <filesystem>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/text/json.h"

namespace gossamer::apps {

int trace_merge(const TraceMergeCommand& command) {
  const MergedTrace m = merge_traces(command.folder, command.keep);
  const std::string path = (std::filesystem::path(command.folder) / "trace.json").string();
  if (command.json) {
    print(fmt::format("{}\n", JsonObject()
                                  .add("trace", path)
                                  .add("ranks", m.ranks)
                                  .add("events", m.events)
                                  .add("arrows", m.arrows)
                                  .add("arrows_backwards", m.backwards)
                                  .add("error_us", m.error_us)
                                  .str()));
  } else {
    print(fmt::format("{}: {} events of {} workers, {} arrows", path, m.events, m.ranks.size(),
                      m.arrows));
    if (m.backwards > 0) print(fmt::format(" ({} point backwards)", m.backwards));
    if (m.error_us > 0) print(fmt::format(", clocks aligned within {:.0f} us", m.error_us));
    print("\n");
  }
  return 0;
}

}  // namespace gossamer::apps
