// See graph_file.h.
#include "gossamer/apps/train/graph_file.h"

#include <string_view>

#include "gossamer/apps/command_keys.h"
#include "gossamer/core/error.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

constexpr std::string_view kOfFile = "file:";
const char* const kCopy = "graph.txt";

}  // namespace

void keep_graph_file(const Config& config, const fs::path& run_folder) {
  if (!config.train.graph.starts_with(kOfFile)) return;
  const fs::path file = config.train.graph.substr(kOfFile.size()), copy = run_folder / kCopy;
  std::error_code error;
  if (fs::equivalent(file, copy, error)) return;
  error.clear();
  fs::copy_file(file, copy, fs::copy_options::overwrite_existing, error);
  check<IoError>(!error, "cannot copy ", file.string(), " to ", copy.string(), ": ",
                 error.message());
}

void take_graph_file(Config& config, const fs::path& run_folder) {
  if (said_by_hand(config, "train.graph")) return;
  std::error_code error;
  if (const fs::path copy = run_folder / kCopy;
      config.train.graph.starts_with(kOfFile) && fs::exists(copy, error))
    config.train.graph = std::string(kOfFile) + copy.string();
}

}  // namespace gossamer::apps
