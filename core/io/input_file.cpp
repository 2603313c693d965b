// See input_file.h.
#include "gossamer/core/io/input_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"

namespace gossamer {

InputFile::InputFile(const std::filesystem::path& path)
    : name_(printable(path.native())),
      fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  check<IoError>(fd_ >= 0, name_, ": cannot open: ", std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(fd_, &status) == 0;
  const int error = errno;
  if (known && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  ::close(fd_);
  check<IoError>(known, name_, ": cannot read its size: ", std::strerror(error));
  fail<IoError>(name_, ": not a regular file; a file of tensors was expected");
}

InputFile::InputFile(std::span<const std::byte> bytes, const std::string& name)
    : name_(printable(name)), size_(bytes.size()), bytes_(bytes) {}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  check<IoError>(offset <= size_ && to.size() <= size_ - offset, name_, ": ", to.size(),
                 " bytes at ", offset, " lie beyond its end at ", size_, " (cut short?)");
  if (to.empty()) return;
  if (fd_ < 0) {
    std::memcpy(to.data(), bytes_.data() + offset, to.size());
    return;
  }
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), std::min<std::size_t>(to.size(), 1u << 30),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    check<IoError>(got >= 0, name_, ": cannot read: ", std::strerror(errno));
    check<IoError>(got > 0, name_, ": became shorter while it was read");
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

}  // namespace gossamer
