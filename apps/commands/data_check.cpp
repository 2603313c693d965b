// `gossamer data check PATH...`: decodes every picture (or some), lists the damaged and the unusual
// ones.
#include <algorithm>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/data/check.h"
#include "gossamer/data/split.h"
#include "gossamer/data/unequal.h"

namespace gossamer::apps {
namespace {

// pictures of each part that --quick decodes
constexpr i64 kQuick = 1000;

// names of a list on the terminal; --json has all
constexpr std::size_t kShown = 10;

void show(const std::string& title, const std::vector<std::string>& names) {
  print(fmt::format("{}: {}\n", title, names.size()));
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i)
    print(fmt::format("  {}\n", names[i]));
  if (names.size() > kShown)
    print(fmt::format("  … and {} more (--json lists all)\n", names.size() - kShown));
}

std::vector<i64> spread(i64 size) {
  std::vector<i64> which;
  for (i64 i = 0; i < std::min(size, kQuick); ++i)
    which.push_back(i * size / std::min(size, kQuick));
  return which;
}

// What was found in one part of a set.
struct Found {
  data::Part part;
  std::shared_ptr<const data::Dataset> set;
  data::CheckReport report;
  double seconds = 0;
  bool sound() const { return report.damaged.empty() && set->empty_classes().empty(); }
};

// "train", "val"; "" if the set has no parts
const char* name_of(data::Part part) {
  return part == data::Part::train ? "train" : part == data::Part::val ? "val" : "";
}

JsonObject to_json(const Found& f) {
  JsonObject odd, out;
  for (const auto& [what, names] : f.report.odd) odd.add(what, names);
  out.add("images", f.report.images)
      .add("of", f.set->size())
      .add("classes", f.set->classes().size())
      .add("bytes", f.report.bytes);
  out.add("smallest_side", f.report.least_side)
      .add("largest_side", f.report.most_side)
      .add("damaged", f.report.damaged)
      .add("empty_classes", f.set->empty_classes())
      .add("notes", f.set->notes());
  return out.raw("odd", odd.str()).add("seconds", f.seconds).add("whole", f.report.whole);
}

void print_found(const Found& f) {
  const std::string part = name_of(f.part);
  print(fmt::format("{}{} of {} in {}, {:.1f} MB, sides {} to {} pixels ({:.1f} s)\n",
                    part.empty() ? "" : part + ": ", f.report.images,
                    counted(f.set->size(), "image"),
                    counted(f.set->classes().size(), "class", "classes"),
                    static_cast<double>(f.report.bytes) / 1e6, f.report.least_side,
                    f.report.most_side, f.seconds));
  for (const std::string& line : f.set->notes()) print(fmt::format("{}\n", line));
  for (const auto& [what, names] : f.report.odd) show(what, names);
  if (const auto empty = f.set->empty_classes(); !empty.empty())
    show("class folders without a picture", empty);
  show("damaged", f.report.damaged);
}

// Why the two cannot be used together; empty: they can.
std::string difference(const std::vector<Found>& all) {
  try {
    if (all.size() == 2) data::check_same_classes(*all[0].set, *all[1].set);
  } catch (const DataError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

int data_check(const DataCheckCommand& command) {
  check<ConfigError>(command.threads >= 1 && command.threads <= 1024, "data check: --threads ",
                     command.threads, " must be 1 to 1024");
  std::vector<Found> all;
  for (const data::Part part : data::parts_in(command.paths))
    all.push_back(
        {part,
         data::open(command.paths, part, data::LabelBase::automatic, data::EmptyClass::left_out),
         {}});
  JsonObject both;
  for (Found& f : all) {
    const auto some = command.quick ? data::part_of(f.set, spread(f.set->size())) : f.set;
    DataProgress progress(std::string("check ") + name_of(f.part), some->size(), command.json);
    f.report = data::check_pictures(*some, command.threads, progress);
    f.seconds = progress.seconds();
    if (command.json && all.size() == 2) both.raw(name_of(f.part), to_json(f).str());
    if (!command.json) print_found(f);
    if (!f.report.whole) break;
  }
  const std::string differ = difference(all);
  if (command.json)
    print(fmt::format("{}\n",
                      (all.size() == 2 ? both.add("differ", differ) : to_json(all[0])).str()));
  else if (!differ.empty())
    print(fmt::format("train and val: {}\n", differ));
  if (!std::ranges::all_of(all, [](const Found& f) { return f.report.whole; }))
    return stopped_code();
  return differ.empty() && std::ranges::all_of(all, &Found::sound) ? 0 : 3;
}

}  // namespace gossamer::apps
