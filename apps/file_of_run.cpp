// See file_of_run.h.
#include "gossamer/apps/file_of_run.h"

#include <set>
#include <string>

namespace fs = std::filesystem;

namespace gossamer::apps {

bool is_file_of_run(const fs::path& given) {
  static const std::set<std::string> kRoot{"model.safetensors",     "model-failed.safetensors",
                                           "model-ema.safetensors", "best.safetensors",
                                           "config.toml",           "log.jsonl",
                                           "summary.json",          "classes.json",
                                           "bad_images.txt",        "graph.txt"};
  std::error_code error;
  const fs::path path = fs::weakly_canonical(given, error);
  if (error || !fs::exists(path, error)) return false;
  const auto is_run = [&](const fs::path& folder) {
    return fs::exists(folder / "log.jsonl", error);
  };
  const fs::path folder = path.parent_path(), above = folder.parent_path();
  if (is_run(folder)) return kRoot.contains(path.filename().string());
  return (folder.filename() == "best" && is_run(above)) ||
         (above.filename() == "checkpoints" && is_run(above.parent_path())) ||
         (above.filename() == "earlier" && is_run(above.parent_path()));
}

}  // namespace gossamer::apps
