// `gossamer data pack SRC DST`: any data set into packed shards, smaller and faster to read.
#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/data/files.h"
#include "gossamer/data/pack.h"
#include "gossamer/data/split.h"

namespace gossamer::apps {
namespace {

namespace fs = std::filesystem;

// Shards among the pictures would be taken for the data set, or their folder for a class.
void refuse_to_pack_into(const std::string& source, const std::string& folder) {
  const auto canonical = [](const std::string& path) {
    const fs::path full = fs::weakly_canonical(path);
    return full.has_filename() ? full : full.parent_path();
  };
  const fs::path from = canonical(source), to = canonical(folder);
  const bool inside = std::ranges::mismatch(from, to).in1 == from.end();
  check<ConfigError>(!inside, "data pack: ", folder, " is in ", source,
                     ", where the shards would be taken for a part of it; name a folder beside it");
}

// The folder of a set with two parts holds a folder for each, and nothing else.
void refuse_other_things(const std::string& folder) {
  std::error_code none;
  for (fs::directory_iterator it(folder, none); !none && it != fs::directory_iterator();
       it.increment(none)) {
    const std::string name = it->path().filename().string();
    check<ConfigError>(name == "train" || name == "val" || is_hidden(name), "data pack: ", folder,
                       " holds other things than train/ and val/ (", printable(name),
                       "); name a new or empty folder");
  }
}

JsonObject to_json(const data::PackReport& r, double seconds) {
  JsonObject out;
  out.add("images", r.images)
      .add("shards", r.shards)
      .add("kept_shards", r.kept_shards)
      .add("became_jpeg", r.reencoded)
      .add("bytes", r.bytes);
  return out.add("left_out", r.left_out).add("seconds", seconds).add("whole", r.whole);
}

void print_report(const data::PackReport& r, const std::string& folder, double seconds) {
  print(fmt::format("{} in {} ({} from an earlier run), {:.1f} MB: {} ({:.1f} s)\n",
                    counted(r.images, "image"), counted(r.shards, "shard"), r.kept_shards,
                    static_cast<double>(r.bytes) / 1e6, folder, seconds));
  if (r.reencoded > 0)
    print(fmt::format(
        "{} of them, PNG, GIF or BMP, became JPEG and end with .jpg now; --copy keeps files as "
        "they are\n",
        r.reencoded));
  if (!r.left_out.empty()) print(fmt::format("left out, because damaged: {}\n", r.left_out.size()));
  for (const std::string& text : r.left_out) print(fmt::format("  {}\n", text));
  if (!r.whole) print("stopped; the same command continues after the finished shards\n");
}

}  // namespace

int data_pack(const DataPackCommand& command) {
  struct Packing {
    std::string part;  // "train", "val"; empty: the set has no parts
    std::shared_ptr<const data::Dataset> set;
  };
  std::vector<Packing> all;
  const auto parts = data::parts_in({command.source});
  for (const data::Part part : parts) {
    const auto set = data::open({command.source}, part, data::parse_label_base(command.label_base));
    for (const std::string& line : set->notes()) say(line);
    all.push_back({part == data::Part::any ? "" : part == data::Part::val ? "val" : "train", set});
  }
  refuse_to_pack_into(command.source, command.folder);
  if (all.size() == 2) refuse_other_things(command.folder);
  JsonObject both;
  bool whole = true;
  for (const Packing& p : all) {
    const std::string to = p.part.empty() ? command.folder : command.folder + "/" + p.part;
    DataProgress progress(p.part.empty() ? "pack" : "pack " + p.part, p.set->size(), command.json);
    const data::PackReport report = data::pack(*p.set, to, command.options, progress);
    const double seconds = progress.seconds();
    if (!command.json)
      print_report(report, to, seconds);
    else if (p.part.empty())
      print(fmt::format("{}\n", to_json(report, seconds).str()));
    else
      both.raw(p.part, to_json(report, seconds).str());
    whole = report.whole;
    if (!whole) break;
  }
  if (command.json && all.size() == 2) print(fmt::format("{}\n", both.str()));
  return whole ? 0 : stopped_code();
}

}  // namespace gossamer::apps
