// Files are read by pread. If a mapped file shrinks while it is used, a signal ends the process;
// with pread it is an error with the file's name.
#include "gossamer/data/files.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"

namespace gossamer::data {
namespace {

// Disks and networks fail for moments: errors that may pass are tried again, for 1.6 s in all.
constexpr std::array kPauses{std::chrono::milliseconds(10), std::chrono::milliseconds(50),
                             std::chrono::milliseconds(250), std::chrono::milliseconds(1250)};

bool may_pass(int error) {
  return error == EIO || error == ENOMEM || error == EAGAIN || error == ETIMEDOUT ||
         error == EHOSTUNREACH || error == ENOTCONN;
}

// Repeats call() until it succeeds, or fails with an error that will not pass: then -1, with errno.
template <class F>
auto with_retries(F call) {
  for (std::size_t again = 0;;) {
    const auto got = call();
    if (got >= 0) return got;
    if (errno == EINTR) continue;
    if (!may_pass(errno) || again == kPauses.size()) return got;
    std::this_thread::sleep_for(kPauses[again++]);
  }
}

// An error that stays with the file is damage of one image, and the run goes on without it. Any
// other error ends the run: if it went on, its images would depend on the moment.
[[noreturn]] void fail_errno(const std::string& path, const std::string& what, int error) {
  const std::string text = printable(path) + ": " + what + ": " + std::strerror(error);
  for (const int damage : {ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, ENXIO, EIO})
    if (error == damage) fail<DataError>(text);
  fail<IoError>(text, error == EMFILE || error == ENFILE
                          ? "; that is no damage: allow this process more (ulimit -n)"
                      : error == EACCES || error == EPERM
                          ? "; that is no damage: let this user read it"
                          : "; that is no damage of this file: is the disk or the network there?");
}

}  // namespace

void check_encoded_size(std::uint64_t bytes, const std::string& name) {
  check<DataError>(bytes <= kMaxEncoded, name, ": ", bytes,
                   " bytes are no picture; the limit for an encoded one is ", kMaxEncoded >> 20,
                   " MiB");
}

File::File(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: without it, a pipe would wait for a writer for ever. It does not affect files.
  fd_ = with_retries([&] { return ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); });
  if (fd_ < 0) fail_errno(path_, "can't be opened", errno);
  struct stat info {};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    fail<DataError>(printable(path_), ": is not a regular file");
  }
  size_ = static_cast<std::size_t>(info.st_size);
}

File::~File() { ::close(fd_); }

void File::read(std::size_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = with_retries(
        [&] { return ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset)); });
    if (got < 0) fail_errno(path_, "reading failed at byte " + std::to_string(offset), errno);
    check<DataError>(got > 0, printable(path_), ": ends at byte ", offset,
                     "; it was longer when the run began");
    offset += static_cast<std::size_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

std::vector<std::byte> read_whole(const std::string& path, std::size_t limit) {
  const File file(path);
  check<DataError>(file.size() <= limit, printable(path), ": ", file.size(),
                   " bytes; such a file has ", limit >> 20, " MiB at most");
  std::vector<std::byte> bytes(file.size());
  file.read(0, bytes);
  return bytes;
}

bool is_image_name(const std::string& name) {
  return has_ending(name, {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif"});
}

}  // namespace gossamer::data
