// Timed scopes for chrome://tracing and ui.perfetto.dev. Off (one relaxed atomic load a scope) until start() is called.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

namespace gossamer::trace {

// Starts recording. `process` is the rank (one row group each). Events are kept in a ring of `capacity` per thread.
void start(int process, std::string process_name, std::size_t capacity = 1 << 16);
// Writes {"traceEvents": [...]} (microseconds of the system clock) and stops. IoError names the path.
void write(const std::filesystem::path&);
bool enabled();
void name_thread(const char* name);                   // literal or static
double now_us();                                      // microseconds of the system clock
void complete(const char* name, double begin_us, double end_us, std::int64_t arg = -1);   // one slice of this thread
void counter(const char* name, double value);
void flow(const char* name, std::uint64_t id, bool begin);   // arrow from begin to end, across processes

// One slice from construction to destruction. `name` must outlive the trace (a literal).
class Scope {
 public:
  explicit Scope(const char* name, std::int64_t arg = -1) : name_(enabled() ? name : nullptr), arg_(arg), begin_(name_ ? now_us() : 0) {}
  ~Scope() { if (name_) complete(name_, begin_, now_us(), arg_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const char* name_;
  std::int64_t arg_;
  double begin_;
};

}  // namespace gossamer::trace
