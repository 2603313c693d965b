// See result_files.h.
#include "gossamer/apps/train/result_files.h"

#include <algorithm>

#include "gossamer/apps/train/checkpoint.h"
#include "gossamer/apps/train/rescue.h"
#include "gossamer/core/error.h"

namespace fs = std::filesystem;

namespace gossamer::apps {

void ResultFiles::write(const std::string& name,
                        const std::function<void(const fs::path&)>& write) {
  try {
    try {
      return write(folder_ / name);
    } catch (const IoError&) {
      prune_checkpoints(folder_, kAllRanks, 0);
      return write(folder_ / name);
    }
  } catch (const IoError& here) {
    const auto into = [&](const fs::path& folder) { write(folder / name); };
    try {
      if (elsewhere_.empty())
        elsewhere_ = write_elsewhere(folder_.filename().string(), id_, false, into);
      else
        into(elsewhere_);
      rescued_.push_back(name);
      problems_.push_back(
          (elsewhere_ / name).string() +
          " is there because it could not be written into the run's folder: " + here.what());
    } catch (const IoError& there) {
      lost_.push_back(name);
      problems_.push_back(std::string(here.what()) + "; " + there.what());
    }
  }
}

fs::path ResultFiles::place(const std::string& name) const {
  if (std::ranges::find(lost_, name) != lost_.end()) return {};
  return (std::ranges::find(rescued_, name) != rescued_.end() ? elsewhere_ : folder_) / name;
}

}  // namespace gossamer::apps
