// `gossamer data check PATH...`: decodes every picture, lists the damaged and the unusual ones.
#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/json.h"
#include "gossamer/core/error.h"
#include "gossamer/data/check.h"

namespace gossamer::apps {
namespace {

// names of a list on the terminal; --json has all
constexpr std::size_t kShown = 10;

void show(const std::string& title, const std::vector<std::string>& names) {
  fmt::print("{}: {}\n", title, names.size());
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) fmt::print("  {}\n", names[i]);
  if (names.size() > kShown)
    fmt::print("  … and {} more (--json lists all)\n", names.size() - kShown);
}

}  // namespace

int data_check(const DataCheckCommand& command) {
  check<ConfigError>(command.threads >= 1 && command.threads <= 1024, "data check: --threads ",
                     command.threads, " must be 1 to 1024");
  const auto set = data::open(command.paths);
  DataProgress progress("check", set->size(), command.json);
  const data::CheckReport report = data::check_pictures(*set, command.threads, progress);
  const double seconds = progress.seconds();
  if (command.json) {
    JsonObject odd;
    for (const auto& [what, names] : report.odd) odd.add(what, names);
    JsonObject out;
    out.add("images", report.images)
        .add("of", set->size())
        .add("classes", set->classes().size())
        .add("bytes", report.bytes);
    out.add("smallest_side", report.least_side)
        .add("largest_side", report.most_side)
        .add("damaged", report.damaged)
        .add("notes", set->notes());
    out.raw("odd", odd.str()).add("seconds", seconds).add("whole", report.whole);
    fmt::print("{}\n", out.str());
  } else {
    fmt::print("{} of {} images in {} classes, {:.1f} MB, sides {} to {} pixels ({:.1f} s)\n",
               report.images, set->size(), set->classes().size(),
               static_cast<double>(report.bytes) / 1e6, report.least_side, report.most_side,
               seconds);
    for (const std::string& line : set->notes()) fmt::print("{}\n", line);
    for (const auto& [what, names] : report.odd) show(what, names);
    show("damaged", report.damaged);
  }
  if (!report.whole) return stopped_code();
  return report.damaged.empty() ? 0 : 3;
}

}  // namespace gossamer::apps
