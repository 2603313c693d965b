// `gossamer data pack SRC DST`: any data set into packed shards, smaller and faster to read.
#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/json.h"
#include "gossamer/core/error.h"
#include "gossamer/data/pack.h"

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

}  // namespace

int data_pack(const DataPackCommand& command) {
  const auto set =
      data::open({command.source}, data::Part::any, data::parse_label_base(command.label_base));
  for (const std::string& line : set->notes()) fmt::print(stderr, "gossamer: {}\n", line);
  refuse_to_pack_into(command.source, command.folder);
  DataProgress progress("pack", set->size(), command.json);
  const data::PackReport report = data::pack(*set, command.folder,
                                             {.max_side = command.max_side,
                                              .quality = command.quality,
                                              .copy = command.copy,
                                              .strict = command.strict,
                                              .threads = command.threads,
                                              .shard_images = command.shard_images},
                                             progress);
  const double seconds = progress.seconds();
  if (command.json) {
    JsonObject out;
    out.add("images", report.images)
        .add("shards", report.shards)
        .add("kept_shards", report.kept_shards)
        .add("bytes", report.bytes);
    out.add("left_out", report.left_out).add("seconds", seconds).add("whole", report.whole);
    fmt::print("{}\n", out.str());
  } else {
    fmt::print("{} images in {} shards ({} from an earlier run), {:.1f} MB: {} ({:.1f} s)\n",
               report.images, report.shards, report.kept_shards,
               static_cast<double>(report.bytes) / 1e6, command.folder, seconds);
    if (!report.left_out.empty())
      fmt::print("left out, because damaged: {}\n", report.left_out.size());
    for (const std::string& text : report.left_out) fmt::print("  {}\n", text);
    if (!report.whole)
      fmt::print("stopped; the same command continues after the finished shards\n");
  }
  return report.whole ? 0 : stopped_code();
}

}  // namespace gossamer::apps
