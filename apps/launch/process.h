// Child processes that do not outlive this one, pipes that are read line by line, signals as
// events. For the launcher.
#pragma once

#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace gossamer::apps {

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
// closed in children, but for what they are given
Pipe make_pipe();

// SIGINT, SIGTERM, SIGHUP and SIGCHLD do not interrupt this process while this lives; next() tells
// of them. One at a time.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  int descriptor() const { return fd_.get(); }
  std::optional<int> next();  // nothing: no signal came

 private:
  sigset_t before_{};
  Descriptor fd_;
};

struct Child {
  std::vector<std::string> arguments;              // the first is the program
  std::map<std::string, std::string> environment;  // added to our own
  // its standard streams; in = -1: empty input, out, err = -1: ours
  int in = -1, out = -1, err = -1;
  std::vector<int> keep;  // descriptors that stay open in it
};
// Starts it in a process group of its own (a terminal's Ctrl-C reaches it through the launcher
// only); it is killed when the calling thread ends. "self" as program: this very program. DistError
// when it can't be started.
pid_t spawn(const Child&);

// The lines of a descriptor without waiting for more.
class LineReader {
 public:
  explicit LineReader(Descriptor fd);
  int descriptor() const { return fd_.get(); }  // -1 at the end
  // complete lines; at the end the last incomplete one
  std::vector<std::string> take();

 private:
  Descriptor fd_;
  std::string rest_;
};

// Writes without waiting; what the reader does not take is kept, up to a limit.
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

// Waits until one of the descriptors can be read, a writer can go on, or time is up.
void wait_for(const std::vector<int>& readable, const std::vector<int>& writable, double seconds);

// "died (signal 9)", "stopped with exit code 3", "finished": a status as waitpid gives it.
std::string status_text(int status);

}  // namespace gossamer::apps
