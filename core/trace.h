// Timed scopes for chrome://tracing and ui.perfetto.dev. Off (one relaxed atomic load a scope)
// until start() is called.
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

namespace gossamer::trace {

// Starts recording. `process` is the rank (one row group each). Each lane keeps its newest
// `capacity` events.
void start(int process, std::string process_name, std::size_t capacity = 1 << 16);
// no more events; those recorded wait for write()
void stop();
// Writes {"traceEvents": [...], "otherData": other_data} and stops; the rings are empty then. One
// event a line. IoError names the path.
void write(const std::filesystem::path&, const std::string& other_data = "{}");
bool enabled();

// Microseconds since 1970, but of a clock that never jumps: the monotonic one plus epoch_us(),
// which is read once a process. All processes of one machine share the monotonic clock, so
// (now_us() - epoch_us()) can be compared between them without error.
double now_us();
double epoch_us();

// A lane is one row of slices; those in one lane must nest. Each thread has its own. lane() makes
// or finds another one by name, for slices that overlap the thread's: transfers that go on beside
// it.
void name_thread(const std::string& name);
int lane(const std::string& name);
constexpr int kThisThread = -1;

// One slice. begin_us 0: it began while nothing was recorded, and is left out.
void complete(const char* name, double begin_us, double end_us, std::int64_t arg = -1,
              int lane = kThisThread);
void counter(const char* name, double value);
// Arrow between two slices, across processes: `begin` within the slice it leaves, its end within
// the slice it reaches. `id` below 2^53.
void flow(const char* name, std::uint64_t id, bool begin);

// One slice from construction to destruction. `name` must outlive the trace (a literal).
class Scope {
 public:
  explicit Scope(const char* name, std::int64_t arg = -1)
      : name_(enabled() ? name : nullptr), arg_(arg), begin_(name_ ? now_us() : 0) {}
  ~Scope() {
    if (name_) complete(name_, begin_, now_us(), arg_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const char* name_;
  std::int64_t arg_;
  double begin_;
};

}  // namespace gossamer::trace
