// For the launcher: child processes that end with this one, pipes that are read line by line,
// signals as events.
#pragma once

#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace gossamer::apps {

// The file of `program` in PATH with links resolved; "": there is none.
std::string found_in_path(const std::string& program);

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return fd_; }
  void reset();

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read, write;
};
// Both ends are closed in children, except those in Child::keep.
Pipe make_pipe();

// While an object of this class exists, SIGINT, SIGTERM, SIGHUP (unless it is ignored) and SIGCHLD
// do not interrupt this process; next() returns them. At most one object at a time. After a signal
// that asks to stop they stay blocked: the process is about to exit, and a late one, of a user who
// presses Ctrl-C again, must not change its exit code.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  int descriptor() const { return fd_.get(); }
  std::optional<int> next();  // none: no signal came

 private:
  sigset_t before_{};
  bool asked_to_stop_ = false;
  Descriptor fd_;
};

struct Child {
  bool self = false;                               // it runs this program
  std::vector<std::string> arguments;              // the first: another program, or our name in ps
  std::map<std::string, std::string> environment;  // added to our own
  // its standard streams; in = -1: empty input; out, err = -1: those of this process
  int in = -1, out = -1, err = -1;
  std::vector<int> keep;  // descriptors that stay open in the child
};
// Starts a child in its own process group, so that a terminal's Ctrl-C reaches it through the
// launcher only. The kernel kills it when the calling thread ends. DistError if it cannot be
// started.
pid_t spawn(const Child&);

// Reads lines without waiting.
class LineReader {
 public:
  explicit LineReader(Descriptor fd);
  int descriptor() const { return fd_.get(); }  // -1 at the end
  // Complete lines; at the end of the input also the last incomplete one.
  std::vector<std::string> take();

 private:
  Descriptor fd_;
  std::string rest_;
};

// Writes without waiting: what the reader has not taken yet is kept in memory. The first one makes
// the process ignore SIGPIPE.
class LineWriter {
 public:
  explicit LineWriter(Descriptor fd);
  int descriptor() const { return fd_.get(); }  // -1: the reader is gone
  bool pending() const { return fd_.get() >= 0 && !rest_.empty(); }
  void write(const std::string& line);
  void flush();
  std::size_t size() const { return rest_.size(); }
  void close() { fd_.reset(); }

 private:
  Descriptor fd_;
  std::string rest_;
};

// Waits until a descriptor can be read or written, or time is up.
void wait_for(const std::vector<int>& readable, const std::vector<int>& writable, double seconds);

// The status that waitpid gives, as "died (signal 9)", "stopped with exit code 3" or "finished".
std::string status_text(int status);

}  // namespace gossamer::apps
