// See rescue.h.
#include "gossamer/apps/train/rescue.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fcntl.h>
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

std::error_code flushed(const fs::path& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = fd >= 0 && fsync(fd) == 0;
  const std::error_code error(done ? 0 : errno, std::generic_category());
  if (fd >= 0) close(fd);
  return error;
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

void bring_home(const fs::path& elsewhere, const fs::path& folder,
                std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const fs::path from = elsewhere / name, to = folder / name;
    if (!fs::exists(from)) continue;
    const fs::path part = to.string() + ".part";
    std::error_code error;
    fs::copy_file(from, part, fs::copy_options::overwrite_existing, error);
    if (!error) error = flushed(part);
    if (!error) fs::rename(part, to, error);
    if (error) {
      std::error_code ignored;
      fs::remove(part, ignored);
      fail<IoError>("cannot copy ", from.string(), " to ", to.string(), ": ", error.message());
    }
  }
}

}  // namespace gossamer::apps
