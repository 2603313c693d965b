// See file_of_run.h.
#include "gossamer/apps/train/file_of_run.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gossamer/apps/report/run_folder.h"
#include "gossamer/apps/train/model_source.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

constexpr const char* kOtherFiles[] = {"best.safetensors", "config.toml", "log.jsonl",
                                       "bad_images.txt", "graph.txt"};

}  // namespace

bool is_file_of_run(const fs::path& given) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(given, error);
  if (error || !fs::exists(path, error)) return false;
  const fs::path folder = path.parent_path(), above = folder.parent_path();
  const std::string name = path.filename().string();
  const auto is_named = [&](const auto& names) {
    return std::ranges::any_of(names, [&](const char* of_run) { return name == of_run; });
  };
  const auto is_log = [&] {
    const std::vector<fs::path> logs = log_files(folder);
    return std::ranges::find(logs, path) != logs.end();
  };
  if (is_run_folder(folder))
    return name != "report.html" && (is_named(kResultFiles) || is_named(kOtherFiles) || is_log());
  return (folder.filename() == "best" && is_run_folder(above)) ||
         (above.filename() == "checkpoints" && is_run_folder(above.parent_path())) ||
         (above.filename() == "earlier" && is_run_folder(above.parent_path()));
}

}  // namespace gossamer::apps
