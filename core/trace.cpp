// Chrome trace events: each thread writes into a ring of its own; write() joins them into one JSON
// file.
#include "gossamer/core/trace.h"

#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <sstream>
#include <vector>

#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/json.h"

namespace gossamer::trace {
namespace {

struct Event {
  char phase;  // X slice, C counter, s/f flow
  const char* name;
  double at, duration, value;
  std::int64_t arg;
};

struct Lane {
  std::mutex mutex;  // write() may read while its thread still records
  std::vector<Event> ring;
  std::size_t next = 0;
  int id = 0;
  bool of_thread = true;
  std::string name;
};

struct State {
  std::mutex mutex;
  std::vector<std::shared_ptr<Lane>> lanes;
  int next_lane = 0;
  int process = 0;
  std::string process_name;
  std::atomic<std::size_t> capacity = 0;

  std::shared_ptr<Lane> add(bool of_thread, std::string name) {
    auto l = std::make_shared<Lane>();
    l->id = next_lane++;
    l->of_thread = of_thread;
    l->name = std::move(name);
    lanes.push_back(l);
    return l;
  }
};

std::atomic<bool> on{false};
State& state() {
  static State* s = new State;  // never destroyed: threads may outlive main()
  return *s;
}

Lane& own_lane() {
  thread_local std::shared_ptr<Lane> mine;
  if (!mine) {
    const std::scoped_lock lock(state().mutex);
    mine = state().add(true, "");
  }
  return *mine;
}

void put(Lane& l, const Event& event) {
  const std::scoped_lock lock(l.mutex);
  const std::size_t capacity = state().capacity;
  if (l.ring.size() < capacity)
    l.ring.push_back(event);
  else if (capacity > 0)
    l.ring[l.next % capacity] = event;
  ++l.next;
}

double monotonic_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// {"ph":"M", ...}: what viewers show beside a row, and the order of rows.
void describe(std::ostream& out, const char* what, int pid, int tid, const std::string& value) {
  out << "{\"ph\":\"M\",\"name\":\"" << what << "\",\"pid\":" << pid;
  if (tid >= 0) out << ",\"tid\":" << tid;
  out << ",\"args\":{" << value << "}}";
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

void stop() { on.store(false); }

double epoch_us() {
  static const double epoch = [] {
    const double system = std::chrono::duration<double, std::micro>(
                              std::chrono::system_clock::now().time_since_epoch())
                              .count();
    return std::floor(system - monotonic_us());  // whole microseconds: adding it loses nothing
  }();
  return epoch;
}
double now_us() { return epoch_us() + monotonic_us(); }

void name_thread(const std::string& name) {
  Lane& l = own_lane();
  const std::scoped_lock lock(l.mutex);
  l.name = name;
}
int lane(const std::string& name) {
  const std::scoped_lock lock(state().mutex);
  for (const auto& l : state().lanes)
    if (!l->of_thread && l->name == name) return l->id;
  return state().add(false, name)->id;
}
void complete(const char* name, double begin_us, double end_us, std::int64_t arg, int lane) {
  if (!enabled() || begin_us <= 0) return;  // 0: it began while off
  const Event event{'X', name, begin_us, end_us - begin_us, 0, arg};
  if (lane == kThisThread) return put(own_lane(), event);
  std::shared_ptr<Lane> found;
  {
    const std::scoped_lock lock(state().mutex);
    for (const auto& l : state().lanes)
      if (l->id == lane) found = l;
  }
  if (found) put(*found, event);
}
void counter(const char* name, double value) {
  if (enabled() && std::isfinite(value)) put(own_lane(), {'C', name, now_us(), 0, value, -1});
}
void flow(const char* name, std::uint64_t id, bool begin) {
  if (enabled())
    put(own_lane(), {begin ? 's' : 'f', name, now_us(), 0, 0, static_cast<std::int64_t>(id)});
}

void write(const std::filesystem::path& path, const std::string& other_data) {
  on.store(false);
  std::ostringstream out;
  out << std::fixed;
  // nanoseconds: a slice and those inside it must still nest when read back
  out.precision(3);
  const std::scoped_lock lock(state().mutex);
  const int pid = state().process;
  out << "{\"displayTimeUnit\":\"ms\",\"otherData\":" << other_data << ",\"traceEvents\":[\n";
  describe(out, "process_name", pid, -1, "\"name\":" + json_text(state().process_name));
  out << ",\n";
  describe(out, "process_sort_index", pid, -1, "\"sort_index\":" + std::to_string(pid));
  for (const auto& l : state().lanes) {
    const std::scoped_lock guard(l->mutex);
    if (l->ring.empty()) continue;
    if (!l->name.empty()) {
      out << ",\n";
      describe(out, "thread_name", pid, l->id, "\"name\":" + json_text(l->name));
    }
    for (const Event& e : l->ring) {
      out << ",\n{\"ph\":\"" << e.phase << "\",\"name\":\"" << e.name << "\",\"pid\":" << pid
          << ",\"tid\":" << l->id << ",\"ts\":" << e.at;
      if (e.phase == 'X') out << ",\"dur\":" << e.duration;
      if (e.phase == 'C')
        out << ",\"args\":{\"value\":" << shortest(e.value) << "}";
      else if (e.phase == 's')
        out << ",\"cat\":\"exchange\",\"id\":" << e.arg;
      else if (e.phase == 'f')
        out << ",\"cat\":\"exchange\",\"bp\":\"e\",\"id\":" << e.arg;
      else if (e.arg >= 0)
        out << ",\"args\":{\"n\":" << e.arg << "}";
      out << "}";
    }
    l->ring.clear();
    l->next = 0;
  }
  // A thread that has ended keeps no lane: only this list still holds it.
  std::erase_if(state().lanes, [](const auto& l) { return l->of_thread && l.use_count() == 1; });
  out << "\n]}\n";
  write_file(path, out.str());
}

}  // namespace gossamer::trace
