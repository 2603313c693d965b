// See run_claim.h.
#include "gossamer/apps/report/run_claim.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gossamer/apps/machine.h"
#include "gossamer/core/error.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

constexpr const char* kRemedy = "; choose another with run.dir=FOLDER";

std::string this_process() { return "process " + std::to_string(getpid()) + " on " + host_name(); }

std::string content_of(int fd) {
  char text[128];
  const ssize_t n = pread(fd, text, sizeof text, 0);
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : "another process";
}

// Whether the file that is open is still the one of this name: the last owner removes it.
bool still_named(int fd, const fs::path& path) {
  struct stat mine {};
  struct stat named {};
  return fstat(fd, &mine) == 0 && stat(path.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
         mine.st_dev == named.st_dev;
}

}  // namespace

RunClaim::RunClaim(const fs::path& folder)
    : folder_(folder), lock_(folder.parent_path() / ("." + folder.filename().string() + ".lock")) {
  try {
    std::error_code error;
    for (fs::path f = folder_; !f.empty() && !fs::exists(f, error); f = f.parent_path())
      made_.push_back(f);
    if (folder_.has_parent_path()) fs::create_directories(folder_.parent_path(), error);
    lock();
    make_folder();
  } catch (...) {
    leave();
    throw;
  }
}

RunClaim::~RunClaim() { leave(); }

// The run's own folder first, while it is still claimed.
void RunClaim::leave() {
  if (fd_ < 0) return;
  std::error_code error;  // remove() only succeeds when empty
  for (const fs::path& made : made_)
    if (made == folder_) fs::remove(made, error);
  unlink(lock_.c_str());
  close(fd_);
  for (const fs::path& made : made_)
    if (made != folder_) fs::remove(made, error);
}

void RunClaim::lock() {
  do {
    if (fd_ >= 0) close(fd_);
    fd_ = open(lock_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) return;
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      const bool taken = errno == EWOULDBLOCK;
      const std::string owner = taken ? content_of(fd_) : "";
      close(fd_);
      fd_ = -1;
      check<ConfigError>(!taken, folder_.string(), " belongs to a run that still goes on (", owner,
                         "); wait for its end, or choose another name with run.name=NAME");
      return;
    }
  } while (!still_named(fd_, lock_));
  const std::string text = this_process();
  if (ftruncate(fd_, 0) != 0 || pwrite(fd_, text.data(), text.size(), 0) < 0) return;
}

void RunClaim::make_folder() {
  std::error_code error;
  fs::create_directories(folder_, error);
  check<IoError>(!error, "cannot create the folder of the run, ", folder_.string(), ": ",
                 error.message(), kRemedy);
  const fs::path probe = folder_ / ".probe";
  std::ofstream out(probe);
  out << "x";
  out.close();
  const int reason = errno;
  fs::remove(probe, error);
  check<IoError>(out.good(), "cannot write into the folder of the run, ", folder_.string(), ": ",
                 std::strerror(reason), kRemedy);
}

}  // namespace gossamer::apps
