// See trace_merge.h.
#include "gossamer/apps/report/trace_merge.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;

struct Part {
  fs::path path;
  TraceClock clock;
};

// Maps the monotonic clock of a machine to the common time line. The shift changes slowly, because
// clocks drift.
struct Machine {
  double mono_begin = 0, mono_end = 0, shift_begin = 0, shift_end = 0, error_us = INFINITY;
  double operator()(double mono) const {
    const double along = mono_end > mono_begin
                             ? std::clamp((mono - mono_begin) / (mono_end - mono_begin), 0.0, 1.0)
                             : 0;
    return mono + shift_begin + along * (shift_end - shift_begin);
  }
};

double number(const Json& object, const char* key, double otherwise = 0) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : otherwise;
}

std::optional<dist::ClockEstimate> estimate(const Json& clock, const char* key) {
  const auto it = clock.find(key);
  if (it == clock.end() || !it->is_object()) return {};
  return dist::ClockEstimate{number(*it, "offset_us"), number(*it, "error_us", INFINITY)};
}

// trace::write puts the header into the first line, and one event into each other.
Part open_part(const fs::path& path, int rank) {
  Part part{path, {}};
  part.clock.rank = rank;
  // without a header, the trace counts as another machine
  part.clock.machine = "worker " + std::to_string(rank);
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  const Json header = parse_json<Json>(line + "]}");
  if (!header.is_object() || !header.contains("otherData") || !header["otherData"].is_object())
    return part;
  const Json& clock = header["otherData"];
  if (clock.contains("machine") && clock["machine"].is_string())
    part.clock.machine = clock["machine"];
  part.clock.epoch_us = number(clock, "epoch_us");
  part.clock.begin_us = number(clock, "begin_us");
  part.clock.end_us = number(clock, "end_us");
  part.clock.begin = estimate(clock, "begin");
  part.clock.end = estimate(clock, "end");
  return part;
}

template <class F>
void each_event(const Part& part, F&& f) {
  std::ifstream in(part.path);
  std::string line;
  std::getline(in, line);
  for (i64 at = 0; std::getline(in, line); ++at) {
    if (line.ends_with(",")) line.pop_back();
    Json event = parse_json<Json>(line);
    // the last line, or one that is cut short
    if (!event.is_object() || !event.contains("ph") || !event["ph"].is_string()) continue;
    f(at, event, event["ph"].get<std::string>());
  }
}

// For each machine, uses the worker there whose clock offset from worker 0 has the smallest error.
std::map<std::string, Machine> align(const std::vector<Part>& parts) {
  std::map<std::string, Machine> machines;
  for (const Part& p : parts) machines[p.clock.machine];
  for (auto& [name, machine] : machines) {
    for (const Part& p : parts) {
      if (p.clock.machine != name) continue;
      const bool reference = p.clock.rank == 0 || machines.size() == 1;
      const auto begin = reference ? dist::ClockEstimate{}
                                   : p.clock.begin.value_or(dist::ClockEstimate{0, INFINITY});
      const auto end = reference ? dist::ClockEstimate{} : p.clock.end.value_or(begin);
      const double error = std::max(begin.error_us, end.error_us);
      if (machine.mono_end != 0 && !(error < machine.error_us)) continue;
      machine = {p.clock.begin_us - p.clock.epoch_us, p.clock.end_us - p.clock.epoch_us,
                 p.clock.epoch_us + begin.offset_us, p.clock.epoch_us + end.offset_us, error};
    }
  }
  return machines;
}

struct FlowEnd {
  double at;
  bool begin;
  std::size_t part;
  i64 line;
};

}  // namespace

std::string machine_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

std::string to_json(const TraceClock& c) {
  JsonObject out;
  out.add("rank", c.rank)
      .add("machine", c.machine)
      .add("epoch_us", c.epoch_us)
      .add("begin_us", c.begin_us)
      .add("end_us", c.end_us);
  const auto add = [&](const char* key, const std::optional<dist::ClockEstimate>& e) {
    if (e) out.add(key, JsonObject().add("offset_us", e->offset_us).add("error_us", e->error_us));
  };
  add("begin", c.begin);
  add("end", c.end);
  return out.str();
}

MergedTrace merge_traces(const fs::path& folder, bool keep_parts) {
  std::vector<Part> parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    int rank = -1, end = 0;
    if (std::sscanf(name.c_str(), "trace-%d.json%n", &rank, &end) == 1 &&
        end == static_cast<int>(name.size()) && rank >= 0)
      parts.push_back(open_part(entry.path(), rank));
  }
  check<IoError>(!error, "cannot read the folder ", folder.string(), ": ", error.message());
  check<IoError>(!parts.empty() || !fs::exists(folder / "trace.json"), folder.string(),
                 " holds trace.json already, and no trace-RANK.json to join: a run that ends joins "
                 "its own");
  check<IoError>(!parts.empty(), folder.string(),
                 " holds no trace-RANK.json; gossamer train with run.trace=true writes them");
  std::ranges::sort(parts, {}, [](const Part& p) { return p.clock.rank; });

  const std::map<std::string, Machine> machines = align(parts);
  const auto aligned = [&](const Part& p, double ts) {
    return machines.at(p.clock.machine)(ts - p.clock.epoch_us);
  };
  MergedTrace out;
  for (const Part& p : parts) {
    out.ranks.push_back(p.clock.rank);
    out.error_us = std::max(out.error_us, machines.at(p.clock.machine).error_us);
  }

  // Arrows: each beginning is joined to the next end with its id. A worker that rejoined may have
  // used an id twice.
  std::map<i64, std::vector<FlowEnd>> flows;
  for (std::size_t i = 0; i < parts.size(); ++i)
    each_event(parts[i], [&](i64 line, const Json& e, const std::string& phase) {
      if (phase != "s" && phase != "f") return;
      const double id = number(e, "id", -1);  // may be anything in a damaged file
      flows[std::abs(id) < 0x1p53 ? static_cast<i64>(id) : -1].push_back(
          {aligned(parts[i], number(e, "ts")), phase == "s", i, line});
    });
  std::map<std::pair<std::size_t, i64>, i64> arrow_of;
  for (auto& [id, ends] : flows) {
    std::ranges::sort(ends, [](const FlowEnd& a, const FlowEnd& b) {
      return a.at < b.at || (a.at == b.at && a.begin && !b.begin);
    });
    const bool one_each = ends.size() == 2 && ends[0].begin != ends[1].begin;
    if (one_each && !ends[0].begin) {
      std::swap(ends[0], ends[1]);
      ++out.backwards;
    }
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
      if (!ends[i].begin || ends[i + 1].begin) continue;
      arrow_of[{ends[i].part, ends[i].line}] = arrow_of[{ends[i + 1].part, ends[i + 1].line}] =
          ++out.arrows;
    }
  }

  const fs::path path = folder / "trace.json", unfinished = folder / "trace.json.part";
  std::ofstream file(unfinished);
  JsonObject header;
  std::vector<JsonObject> clocks;
  for (const Part& p : parts) {
    const Machine& m = machines.at(p.clock.machine);
    clocks.push_back(JsonObject()
                         .add("rank", p.clock.rank)
                         .add("machine", p.clock.machine)
                         .add("offset_us", m.shift_begin - p.clock.epoch_us)
                         .add("error_us", m.error_us));
  }
  header.add("workers", clocks).add("arrows", out.arrows).add("arrows_backwards", out.backwards);
  file << "{\"displayTimeUnit\":\"ms\",\"otherData\":" << header.str() << ",\"traceEvents\":[\n";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    each_event(parts[i], [&](i64 line, Json& e, const std::string& phase) {
      if (phase == "s" || phase == "f") {
        const auto arrow = arrow_of.find({i, line});
        if (arrow == arrow_of.end()) return;
        e["id"] = arrow->second;
      }
      if (phase != "M") {
        // Both ends of a slice are mapped by the same rising function, so slices stay nested.
        const double ts = number(e, "ts"), begin = aligned(parts[i], ts);
        if (phase == "X") e["dur"] = aligned(parts[i], ts + number(e, "dur")) - begin;
        e["ts"] = begin;
      }
      e["pid"] = parts[i].clock.rank;
      file << (out.events++ ? ",\n" : "") << e.dump(-1, ' ', false, Json::error_handler_t::replace);
    });
  }
  file << "\n]}\n";
  file.close();
  check<IoError>(file.good(), "cannot write ", path.string(), "; is the disk full?");
  fs::rename(unfinished, path, error);
  check<IoError>(!error, "cannot write ", path.string(), ": ", error.message());
  if (!keep_parts)
    for (const Part& p : parts) fs::remove(p.path, error);
  return out;
}

}  // namespace gossamer::apps
