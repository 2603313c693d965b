// Files by pread: a mapped file that shrinks while it is used kills the process by a signal, a short read is an error with a name.
#include "gossamer/data/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "gossamer/core/error.h"

namespace gossamer::data {

void check_encoded_size(std::uint64_t bytes, const std::string& name) {
  check<DataError>(bytes <= kMaxEncoded, name, ": ", bytes, " bytes are no picture; the limit for an encoded one is ", kMaxEncoded >> 20, " MiB");
}

std::string printable(std::string name) {
  for (char& c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  return name;
}

File::File(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: a pipe without a writer would wait for one for ever. Regular files don't notice.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const int error = errno;
  check<IoError>(fd_ >= 0 || (error != EMFILE && error != ENFILE), printable(path_), ": can't be opened: ", std::strerror(error),
                 "; that is no damage: allow this process more (ulimit -n)");
  check<DataError>(fd_ >= 0, printable(path_), ": can't be opened: ", std::strerror(error));
  struct stat info{};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    fail<DataError>(printable(path_), ": is not a regular file");
  }
  size_ = static_cast<std::size_t>(info.st_size);
}

File::~File() { ::close(fd_); }

void File::read(std::size_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    check<DataError>(got >= 0, printable(path_), ": reading failed at byte ", offset, ": ", std::strerror(errno));
    check<DataError>(got > 0, printable(path_), ": ends at byte ", offset, "; it was longer when the run began");
    offset += static_cast<std::size_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

std::vector<std::byte> read_whole(const std::string& path, std::size_t limit) {
  const File file(path);
  check<DataError>(file.size() <= limit, printable(path), ": ", file.size(), " bytes; such a file has ", limit >> 20, " MiB at most");
  std::vector<std::byte> bytes(file.size());
  file.read(0, bytes);
  return bytes;
}

std::string first_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i) text += (i ? ", " : "") + printable(names[i]);
  return text + (names.size() > 3 ? ", …" : "");
}

bool is_image_name(const std::string& name) {
  static constexpr std::array<std::string_view, 7> endings{"jpg", "jpeg", "jpe", "jfif", "png", "bmp", "gif"};
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return false;
  std::string ending = name.substr(dot + 1);
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(endings, ending) != endings.end();
}

}  // namespace gossamer::data
