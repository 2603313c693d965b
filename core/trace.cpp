// Chrome trace events: each thread writes into a ring of its own; write() joins them into one JSON file.
#include "gossamer/core/trace.h"

#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <sstream>
#include <vector>

#include "gossamer/core/safetensors.h"

namespace gossamer::trace {
namespace {

struct Event {
  char phase;                      // X slice, C counter, s/f flow
  const char* name;
  double at, duration, value;
  std::int64_t arg;
};

struct Lane {
  std::mutex mutex;                // write() may read while its thread still records
  std::vector<Event> ring;
  std::size_t next = 0;
  int id = 0;
  const char* name = nullptr;
};

struct State {
  std::mutex mutex;
  std::vector<std::shared_ptr<Lane>> lanes;
  int process = 0;
  std::string process_name;
  std::atomic<std::size_t> capacity = 0;
};

std::atomic<bool> on{false};
State& state() {
  static State* s = new State;
  return *s;
}

Lane& lane() {
  thread_local std::shared_ptr<Lane> mine;
  if (!mine) {
    mine = std::make_shared<Lane>();
    const std::scoped_lock lock(state().mutex);
    mine->id = static_cast<int>(state().lanes.size());
    state().lanes.push_back(mine);
  }
  return *mine;
}

std::string escaped(const std::string& text) {      // for a JSON string
  std::string out;
  for (const char ch : text) {
    if (ch == '"' || ch == '\\') out += '\\';
    if (static_cast<unsigned char>(ch) < 0x20) out += ch == '\n' ? "\\n" : " ";
    else out += ch;
  }
  return out;
}

void put(const Event& event) {
  Lane& l = lane();
  const std::scoped_lock lock(l.mutex);
  const std::size_t capacity = state().capacity;
  if (l.ring.size() < capacity) l.ring.push_back(event);
  else if (capacity > 0) l.ring[l.next % capacity] = event;
  ++l.next;
}

}  // namespace

bool enabled() { return on.load(std::memory_order_relaxed); }

void start(int process, std::string process_name, std::size_t capacity) {
  {
    const std::scoped_lock lock(state().mutex);
    state().process = process;
    state().process_name = std::move(process_name);
    state().capacity = capacity;
  }
  on.store(true);
}

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void name_thread(const char* name) {
  Lane& l = lane();
  const std::scoped_lock lock(l.mutex);
  l.name = name;
}
void complete(const char* name, double begin_us, double end_us, std::int64_t arg) {
  if (enabled()) put({'X', name, begin_us, end_us - begin_us, 0, arg});
}
void counter(const char* name, double value) {
  if (enabled()) put({'C', name, now_us(), 0, value, -1});
}
void flow(const char* name, std::uint64_t id, bool begin) {
  if (enabled()) put({begin ? 's' : 'f', name, now_us(), 0, 0, static_cast<std::int64_t>(id)});
}

void write(const std::filesystem::path& path) {
  on.store(false);
  std::ostringstream out;
  out.precision(16);
  const std::scoped_lock lock(state().mutex);
  const int pid = state().process;
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" << pid << ",\"args\":{\"name\":\""
      << escaped(state().process_name) << "\"}}";
  for (const auto& l : state().lanes) {
    const std::scoped_lock guard(l->mutex);
    if (l->name)
      out << ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" << pid << ",\"tid\":" << l->id << ",\"args\":{\"name\":\"" << l->name << "\"}}";
    for (const Event& e : l->ring) {
      out << ",\n{\"ph\":\"" << e.phase << "\",\"name\":\"" << e.name << "\",\"pid\":" << pid << ",\"tid\":" << l->id << ",\"ts\":" << e.at;
      if (e.phase == 'X') out << ",\"dur\":" << e.duration;
      if (e.phase == 'C' && std::isfinite(e.value)) out << ",\"args\":{\"value\":" << e.value << "}";
      else if (e.phase == 's' || e.phase == 'f') out << ",\"cat\":\"exchange\",\"bp\":\"e\",\"id\":" << e.arg;
      else if (e.arg >= 0) out << ",\"args\":{\"n\":" << e.arg << "}";
      out << "}";
    }
    l->ring.clear();
    l->next = 0;
  }
  out << "\n]}\n";
  write_file(path, out.str());
}

}  // namespace gossamer::trace
