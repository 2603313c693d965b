// See terminal.h.
#include "gossamer/apps/terminal.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gossamer/core/text/printable.h"

namespace gossamer::apps {

void open_standard_streams() {
  // It is opened in the wrong direction, so that reading or writing fails instead of doing nothing.
  // open() takes the lowest free descriptor, which is this one.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) _exit(2);
}

std::string for_terminal(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\t", at), text.size());
    out += printable(std::string_view(text).substr(at, end - at)) + text.substr(end, 1);
    at = end + 1;
  }
  return out;
}

void print(const std::string& text) { std::fputs(for_terminal(text).c_str(), stdout); }

void say(const std::string& text) {
  std::fflush(stdout);
  std::fputs(("gossamer: " + for_terminal(text) + "\n").c_str(), stderr);
}

std::string lost_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return "";
  const std::string why = errno == EBADF ? "standard output is closed"
                          : errno != 0   ? std::strerror(errno)
                                         : "writing failed";
  struct stat out {};
  const bool pipe =
      fstat(STDOUT_FILENO, &out) == 0 && (S_ISFIFO(out.st_mode) || S_ISSOCK(out.st_mode));
  return pipe ? "" : why;
}

}  // namespace gossamer::apps
