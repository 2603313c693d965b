// `gossamer what-if RUN`: images a second and exposed time of a run that was not made, by the
// time-line model (dist/simulation/timeline.h) with the times of one that was.
#include "gossamer/apps/commands/what_if.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/core.h>

#include "gossamer/apps/commands/slow_workers.h"
#include "gossamer/apps/config.h"
#include "gossamer/apps/report/json_values.h"
#include "gossamer/apps/report/run_record.h"
#include "gossamer/apps/report/trace_times.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/dist/simulation/timeline.h"

namespace gossamer::apps {
namespace {

constexpr double kSteps = 400;  // of a worker, simulated

// "10G" bits a second -> bytes a second
double bytes_per_s(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  const std::string unit(last, end);
  const double factor = unit == "G" ? 1e9 : unit == "M" ? 1e6 : unit.empty() ? 1 : 0;
  check<ConfigError>(error == std::errc() && value > 0 && factor > 0, "what-if: --bandwidth ", text,
                     "; wanted are bits a second such as 10G or 800M");
  return value * factor / 8;
}

std::string configured(const RunRecord& run, const std::string& key) {
  for (const auto& [name, value] : run.config)
    if (name == key) return value;
  return "";
}

// How much longer a worker computes where so many share the cores of a machine than where it is
// alone. threads: of each; 0: it takes its share of the cores, whatever that is.
double crowded(int workers, int machines, double threads, double cores) {
  const double together = std::ceil(static_cast<double>(workers) / machines);
  return threads > 0 ? std::max(1.0, together * threads / cores) : together;
}

struct Prediction {
  double images_per_s = 0, exposed = 0, waiting = 0, exchanges_per_step = 0;
};
Prediction predict(const dist::SimulationOptions& o, double images_per_step) {
  const auto r = dist::simulate_timeline(dist::plan_simulation(o), kSteps * o.machines.compute_s);
  Prediction out{r.steps_per_s * images_per_step, 0, 0, 0};
  for (const dist::WorkerTimeline& w : r.workers) {
    const auto n = static_cast<double>(r.workers.size());
    out.exposed += w.exposed / n, out.waiting += w.waiting / n;
    out.exchanges_per_step += w.exchanges_per_step / n;
  }
  return out;
}

}  // namespace

int what_if(const WhatIfCommand& c) {
  const RunRecord run = read_run(c.run);
  const TraceTimes times = read_trace_times(c.run);
  const double batch =
                   number(run.summary, "batch") * std::max(1, whole(run.summary, "accumulate", 1)),
               parameters = number(run.summary, "parameters"), cores = number(run.launch, "cores");
  check<ConfigError>(batch > 0 && parameters > 0, "what-if: ", c.run,
                     " has no summary.json; a run that has ended is needed");
  const auto made_of = static_cast<int>(times.workers.size());
  double threads = 0;
  const std::string said = configured(run, "train.threads");
  std::from_chars(said.data(), said.data() + said.size(), threads);

  // The run that was made, as the model sees it.
  dist::SimulationOptions made;
  made.method = text(run.summary, "method");
  // a time line knows no optimizer
  if (const std::string like = dist::method_traits(made.method).variant_of; !like.empty())
    made.method = like;
  for (const auto& [setting, value] : dist::method_settings(made.method))
    if (const auto was = read_setting(configured(run, method_key(setting.name)), value))
      made.settings.set(setting.name, *was);
  made.graph = text(run.summary, "graph");
  made.workers = made_of;
  made.dims = 1;
  made.pairing = "handshake";
  if (const double rate = number(run.summary, "rate"); rate > 0) made.rate = rate;
  dist::Machines& m = made.machines;
  double measured = 0, exposed = 0, spread = 0;
  m.compute_s = 0;
  for (const StepTimes& w : times.workers) {
    measured += batch / w.step_s;
    exposed += w.exposed_s / w.step_s / made_of;
    m.compute_s += (w.step_s - w.exposed_s) / made_of;
    spread += w.spread / made_of;
  }
  m.compute = {dist::Spread::Kind::lognormal, std::min(1.0, spread)};
  m.bytes = 4 * parameters;
  if (!times.transfers_s.empty())  // the quicker half: those that found their peer ready
    m.bandwidth =
        m.bytes / std::max(1e-6, times.transfers_s[times.transfers_s.size() / 4] - m.latency_s);
  check<ConfigError>(made_of >= 2, "what-if: ", c.run,
                     " is a run of one worker, which exchanges nothing; two are needed");
  const Prediction again = predict(made, batch);
  const double factor = measured / again.images_per_s;

  dist::SimulationOptions asked = made;
  if (c.workers > 0) asked.workers = c.workers;
  if (!c.graph.empty()) asked.graph = c.graph;
  if (!c.method.empty()) {
    asked.method = c.method;
    asked.settings = made.settings.only(dist::method_settings(c.method));
  }
  if (!c.bandwidth.empty()) asked.machines.bandwidth = bytes_per_s(c.bandwidth);
  const int machines = c.machines > 0 ? c.machines : times.machines;
  if (cores > 0)
    asked.machines.compute_s *= crowded(asked.workers, machines, threads, cores) /
                                crowded(made_of, times.machines, threads, cores);
  asked.machines.slow.assign(static_cast<std::size_t>(asked.workers), 1);
  for (const std::string& each : c.slow)
    read_slow("what-if", each, asked.workers, asked.machines.slow);
  const Prediction p = predict(asked, batch);
  const double images = factor * p.images_per_s;

  if (c.json) {
    fmt::print("{}\n", JsonObject()
                           .add("workers", asked.workers)
                           .add("graph", asked.graph)
                           .add("method", asked.method)
                           .add("machines", machines)
                           .add("compute_s", asked.machines.compute_s)
                           .add("bandwidth", asked.machines.bandwidth)
                           .add("images_per_s", images)
                           .add("exposed", p.exposed)
                           .add("waiting", p.waiting)
                           .add("exchanges_per_step", p.exchanges_per_step)
                           .raw("made", JsonObject()
                                            .add("workers", made_of)
                                            .add("images_per_s", measured)
                                            .add("model_images_per_s", again.images_per_s)
                                            .add("exposed", exposed)
                                            .str())
                           .str());
    return 0;
  }
  const auto line = [](const char* what, double per_s, double out_of_reach, double waits) {
    fmt::print("  {:<10} {:>9.1f} {:>9.1f} % {:>9.1f} %\n", what, per_s, 100 * out_of_reach,
               100 * waits);
  };
  print(fmt::format("{} by {} on {}, from the trace of {}\n  {:<10} {:>9} {:>11} {:>11}\n",
                    counted(asked.workers, "worker"), asked.method, asked.graph, c.run, "",
                    run.unit + "/s", "exposed", "waiting"));
  line("made", measured, exposed, 0);
  line("model", again.images_per_s, again.exposed, again.waiting);
  line("predicted", images, p.exposed, p.waiting);
  fmt::print(
      "assumed: a step computes {:.4g} s on {}, a model of {:.3g} MB travels at {:.3g} Gb/s, and "
      "the "
      "model is {} as fast as what it says of the run that was made\n",
      asked.machines.compute_s, counted(machines, "machine"), asked.machines.bytes / 1e6,
      asked.machines.bandwidth * 8e-9, fmt::format("{:.2f} times", factor));
  return 0;
}

}  // namespace gossamer::apps
