// See process.h. For Linux only: signalfd, PR_SET_PDEATHSIG.
#include "gossamer/apps/launch/process.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

constexpr std::size_t kLongestLine = 1 << 20;  // longer lines are returned in pieces

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

sigset_t waited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&set, s);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  // Under nohup it is ignored, but a signal that is waited for comes nevertheless.
  if (hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e;
    if (!added.contains(entry.substr(0, entry.find('=')))) all.push_back(entry);
  }
  for (const auto& [key, value] : added) all.push_back(key + "=" + value);
  return all;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& t : texts) out.push_back(const_cast<char*>(t.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

std::string found_in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  std::error_code error;
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::filesystem::path file = std::filesystem::path(folder) / program;
        access(file.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(file, error))
      return std::filesystem::canonical(file, error).string();
  return "";
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}
Descriptor::~Descriptor() { reset(); }
void Descriptor::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Pipe make_pipe() {
  int fds[2];
  const bool opened = pipe2(fds, O_CLOEXEC) == 0;
  check<DistError>(opened, "cannot open a pipe to a worker: ", std::strerror(errno));
  return {Descriptor(fds[0]), Descriptor(fds[1])};
}

SignalInbox::SignalInbox() {
  const sigset_t set = waited_signals();
  sigprocmask(SIG_BLOCK, &set, &before_);
  fd_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  check<DistError>(fd_.get() >= 0, "cannot wait for signals: ", std::strerror(errno));
}
SignalInbox::~SignalInbox() {
  if (!asked_to_stop_) sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalInbox::next() {
  signalfd_siginfo info{};
  if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  if (info.ssi_signo != SIGCHLD) asked_to_stop_ = true;
  return static_cast<int>(info.ssi_signo);
}

pid_t spawn(const Child& child) {
  // All memory is allocated before fork(), so that the child only makes system calls.
  const std::vector<std::string> variables = merged_environment(child.environment);
  const std::vector<char*> argv = pointers(child.arguments), envp = pointers(variables);
  const Descriptor empty(child.in < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1);
  const int in = child.in < 0 ? empty.get() : child.in;
  const sigset_t set = waited_signals();
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  check<DistError>(pid >= 0, "cannot start a process: ", std::strerror(errno));
  if (pid > 0) return pid;

  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before the line above
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  if (in >= 0) dup2(in, 0);
  if (child.out >= 0) dup2(child.out, 1);
  if (child.err >= 0) dup2(child.err, 2);
  for (const int fd : child.keep) fcntl(fd, F_SETFD, 0);
  execvpe(child.self ? "/proc/self/exe" : argv[0], argv.data(), envp.data());
  const char* why = std::strerror(errno);
  for (const char* text :
       {"gossamer: cannot start ",
        child.self ? "this program again" : static_cast<const char*>(argv[0]), ": ", why, "\n"})
    if (write(2, text, std::strlen(text)) < 0) break;
  _exit(127);
}

LineReader::LineReader(Descriptor fd) : fd_(std::move(fd)) { set_nonblocking(fd_.get()); }

std::vector<std::string> LineReader::take() {
  std::vector<std::string> lines;
  char buffer[16384];
  while (fd_.get() >= 0) {
    const ssize_t n = read(fd_.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      fd_.reset();
      if (!rest_.empty()) lines.push_back(std::exchange(rest_, {}));
      break;
    }
    for (const char c : std::string_view(buffer, static_cast<std::size_t>(n))) {
      if (c != '\n') rest_ += c;
      if (c == '\n' || rest_.size() >= kLongestLine) lines.push_back(std::exchange(rest_, {}));
    }
  }
  return lines;
}

LineWriter::LineWriter(Descriptor fd) : fd_(std::move(fd)) {
  set_nonblocking(fd_.get());
  signal(SIGPIPE, SIG_IGN);  // write() says that the reader is gone
}

void LineWriter::write(const std::string& line) {
  if (fd_.get() < 0) return;
  rest_ += line + "\n";
  flush();
}

void LineWriter::flush() {
  while (pending()) {
    const ssize_t n = ::write(fd_.get(), rest_.data(), rest_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return fd_.reset();
    rest_.erase(0, static_cast<std::size_t>(n));
  }
}

void wait_for(const std::vector<int>& readable, const std::vector<int>& writable, double seconds) {
  std::vector<pollfd> fds;
  for (const int fd : readable)
    if (fd >= 0) fds.push_back({fd, POLLIN, 0});
  for (const int fd : writable)
    if (fd >= 0) fds.push_back({fd, POLLOUT, 0});
  poll(fds.data(), fds.size(), static_cast<int>(std::ceil(seconds * 1000)));
}

std::string status_text(int status) {
  if (WIFSIGNALED(status)) return "died (signal " + std::to_string(WTERMSIG(status)) + ")";
  return WEXITSTATUS(status) == 0 ? "finished"
                                  : "stopped with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace gossamer::apps
