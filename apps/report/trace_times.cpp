// See trace_times.h.
#include "gossamer/apps/report/trace_times.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "gossamer/apps/report/json_values.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kFirst = 3;  // steps that do not count
// Microseconds: times count from 1970 (1.8e15 in 2026), and no part of a run takes 30 years.
constexpr double kLatest = 1e17, kLongest = 1e15;

struct Slices {
  std::vector<std::pair<double, double>> steps;  // begin, duration; microseconds
  std::vector<std::pair<double, double>> waits;
};

StepTimes times_of(int rank, Slices& s) {
  std::ranges::sort(s.steps);
  std::ranges::sort(s.waits);
  StepTimes out{.rank = rank};
  std::vector<double> logs;
  double waited = 0;
  auto next = s.waits.begin();  // of those that no step before has passed
  for (std::size_t k = kFirst; k + 1 < s.steps.size(); ++k) {
    const double begin = s.steps[k].first, end = s.steps[k + 1].first;
    double wait = 0;
    while (next != s.waits.end() && next->first < begin) ++next;
    for (; next != s.waits.end() && next->first < end; ++next) wait += next->second;
    ++out.steps;
    waited += wait;
    out.step_s += end - begin;
    if (end - begin > wait) logs.push_back(std::log(end - begin - wait));
  }
  if (out.steps == 0) return out;
  out.step_s /= 1e6 * out.steps;
  out.exposed_s = waited / (1e6 * out.steps);
  double mean = 0;
  for (const double v : logs) mean += v / static_cast<double>(logs.size());
  for (const double v : logs) out.spread += (v - mean) * (v - mean);
  out.spread = std::sqrt(out.spread / static_cast<double>(std::max<std::size_t>(1, logs.size())));
  return out;
}

}  // namespace

TraceTimes parse_trace_times(const std::string& json, const std::string& file) {
  const Json trace = parse_json<Json>(json);
  check<DataError>(
      trace.is_object() && trace.contains("traceEvents") && trace["traceEvents"].is_array(), file,
      " is no trace: it has no list traceEvents");
  std::map<int, Slices> workers;
  TraceTimes out;
  for (const Json& e : trace["traceEvents"]) {
    if (text(e, "ph") != "X") continue;
    const std::string name = text(e, "name");
    const std::pair slice{number(e, "ts"), number(e, "dur")};
    if (!(std::abs(slice.first) < kLatest && slice.second >= 0 && slice.second < kLongest))
      continue;
    Slices& worker = workers[whole(e, "pid")];
    if (name == "step")
      worker.steps.push_back(slice);
    else if (name.starts_with("wait ") || name == "meet")
      worker.waits.push_back(slice);
    else if (name == "transfer")
      out.transfers_s.push_back(slice.second / 1e6);
  }
  for (auto& [rank, slices] : workers) out.workers.push_back(times_of(rank, slices));
  for (const StepTimes& w : out.workers)
    check<ConfigError>(w.steps > 0, file, ": worker ", w.rank, " has fewer than ", kFirst + 2,
                       " steps in it, from which nothing can be learnt");
  check<ConfigError>(!out.workers.empty(), file, " holds no steps of training");
  std::ranges::sort(out.transfers_s);
  std::set<std::string> machines;
  if (trace.contains("otherData") && trace["otherData"].is_object() &&
      trace["otherData"].contains("workers") && trace["otherData"]["workers"].is_array())
    for (const Json& w : trace["otherData"]["workers"]) machines.insert(text(w, "machine"));
  out.machines = std::max(1, static_cast<int>(machines.size()));
  return out;
}

TraceTimes read_trace_times(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "trace.json";
  std::ifstream in(path);
  check<ConfigError>(in.good(), path.string(),
                     " is not there; train with run.trace=true, or join its parts: gossamer trace "
                     "merge ",
                     folder.string());
  return parse_trace_times({std::istreambuf_iterator<char>(in), {}}, path.string());
}

}  // namespace gossamer::apps
