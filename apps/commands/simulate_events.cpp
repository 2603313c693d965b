// See simulate_events.h.
#include "gossamer/apps/commands/simulate_events.h"

#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::apps {
namespace {

constexpr int kMostWorkers = 64, kMostDims = 256;

std::string text(std::span<const double> values) {
  return json_text(std::vector<double>(values.begin(), values.end()));
}

std::string line(const dist::SimulatedEvent& e) {
  JsonObject out;
  out.add("event", e.kind).add("t", e.t).add("i", e.i);
  if (e.j >= 0) out.add("j", e.j);
  if (e.kind != std::string_view("exchange")) out.add("own", e.own).add("eta", e.eta);
  if (!e.update.empty()) out.raw("update", text(e.update));
  out.raw("x", text(e.x));
  if (!e.twin.empty()) out.raw("twin", text(e.twin));
  if (!e.other_x.empty()) out.raw("other_x", text(e.other_x));
  if (!e.other_twin.empty()) out.raw("other_twin", text(e.other_twin));
  return out.str();
}

}  // namespace

void check_events(const dist::SimulationPlan& plan) {
  check<ConfigError>(plan.options.workers <= kMostWorkers && plan.options.dims <= kMostDims,
                     "simulate: --events with ", plan.options.workers, " workers of ",
                     plan.options.dims, " dimensions; at most ", kMostWorkers, " of ", kMostDims,
                     " can be written");
}

void write_events(const std::string& file, JsonObject head, dist::SimulationPlan plan,
                  const dist::Problem* problem, double time) {
  const dist::SimulationOptions& o = plan.options;
  std::string edges;
  for (const dist::Edge& e : plan.graph.edges)
    edges += (edges.empty() ? "[" : ", [") + json_text(e.a) + ", " + json_text(e.b) + ", " +
             json_text(e.rate) + "]";
  head.raw("edges", "[" + edges + "]").add("time", time).add("alpha", plan.constants.alpha);
  if (!plan.row->gossip.accelerated)
    head.add("eta", 0);
  else
    head.add("eta", o.eta_scale * plan.constants.eta)
        .add("alpha_tilde", plan.constants.alpha_tilde);
  std::string out = head.str() + '\n';
  for (int i = 0; i < o.workers; ++i) {
    JsonObject start;
    start.add("event", "start").add("t", 0).add("i", i);
    out += start.add("x", dist::simulated_start(plan, problem, o.seed, i)).str() + '\n';
  }
  plan.watch = [&](const dist::SimulatedEvent& e) { out += line(e) + '\n'; };
  dist::make_simulation(plan, problem, o.seed)->run_until(time);
  write_file(file, out);
}

}  // namespace gossamer::apps
