// See rescue.h.
#include "gossamer/apps/train/rescue.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "gossamer/core/error.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

// In a folder that others may write to, the name may be somebody's link or folder.
bool is_own_folder(const fs::path& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

fs::path make_folder(const fs::path& wanted, bool shared) {
  fs::path folder = wanted;
  for (int n = 1;; ++n) {
    if (mkdir(folder.c_str(), 0700) == 0) return folder;
    const int error = errno;
    check<IoError>(error == EEXIST, "cannot create ", folder.string(), ": ", std::strerror(error));
    if (shared && is_own_folder(folder)) return folder;
    check<IoError>(n < 1000, "cannot create ", folder.string(), ": ", std::strerror(error));
    folder = wanted.string() + "." + std::to_string(n);
  }
}

}  // namespace

fs::path write_elsewhere(const std::string& name, const std::string& id, bool shared,
                         const std::function<void(const fs::path&)>& write) {
  std::vector<fs::path> places;
  std::error_code error;
  const auto add = [&](const fs::path& place) {
    if (!error && !place.empty()) places.push_back(place);
  };
  add(fs::temp_directory_path(error));
  add(fs::current_path(error));
  error.clear();
  if (const char* home = std::getenv("HOME")) add(home);
  std::string tried;
  for (const fs::path& place : places) {
    fs::path folder;
    try {
      folder = make_folder(place / ("gossamer-" + name + "-" + id), shared);
      write(folder);
      return folder;
    } catch (const IoError& e) {
      tried += (tried.empty() ? "" : "; ") + std::string(e.what());
      if (!folder.empty()) fs::remove(folder, error);  // only succeeds when empty
    }
  }
  fail<IoError>("no other place could be written either: ", tried);
}

}  // namespace gossamer::apps
