// See simulate_page.h.
#include "gossamer/apps/commands/simulate_page.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "gossamer/apps/report/html.h"
#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {
namespace {

Points points_of(const std::vector<double>& x, const std::vector<double>& y) {
  Points out;
  for (std::size_t k = 0; k < x.size(); ++k) out.emplace_back(x[k], y[k]);
  return out;
}

// e^(-rate t), until it is 1e-12 or `longest` is reached.
Curve decay(const std::string& name, double rate, double longest, int colour) {
  constexpr int kPoints = 60;
  const double end = rate > 0 ? std::min(longest, 27.6 / rate) : longest;
  Curve out{.name = name, .colour = colour};
  for (int k = 0; k <= kPoints; ++k)
    out.points.emplace_back(end * k / kPoints, std::exp(-rate * end * k / kPoints));
  return out;
}

const char* const kTime = "mean gradient durations";

}  // namespace

std::string consensus_pictures(const dist::ConsensusResult& r) {
  std::vector<Curve> curves{
      {.name = fmt::format("mean of {} seeds", r.seeds), .points = points_of(r.time, r.distance)}};
  if (r.exact && !r.distance.empty()) {
    Curve line{.name = fmt::format("exactly exp(-{:.4g} t)", *r.exact), .colour = 1};
    double start = NAN;
    for (std::size_t k = 0; k < r.time.size(); ++k) {
      if (r.time[k] < r.fit_from || r.time[k] > r.fit_to) continue;
      if (!std::isfinite(start)) start = r.distance[k] * std::exp(*r.exact * r.time[k]);
      line.points.emplace_back(r.time[k], start * std::exp(-*r.exact * r.time[k]));
    }
    curves.push_back(std::move(line));
  }
  return chart({"mean (x − x̄)²", kTime, true}, curves);
}

std::string training_pictures(const dist::TrainingResult& r) {
  std::string out = chart({"loss of the mean model, above the minimum", kTime, true},
                          {{.points = points_of(r.time, r.loss)}});
  out += chart({"mean (x − x̄)²", kTime, true}, {{.points = points_of(r.time, r.distance)}});
  if (r.control)
    out += chart({"distance and its target", kTime, true},
                 {{.name = "distance", .points = points_of(r.time, r.control->xi)},
                  {.name = "target", .points = points_of(r.time, r.control->target), .colour = 1}});
  return out;
}

std::string timeline_pictures(const dist::TimelineResult& r) {
  std::vector<std::vector<double>> rows;
  Curve speed{.dots = true};
  for (std::size_t i = 0; i < r.workers.size(); ++i) {
    const dist::WorkerTimeline& w = r.workers[i];
    rows.push_back({w.computing, w.waiting, w.exposed});
    speed.points.emplace_back(i, w.steps_per_s);
  }
  double slowest = INFINITY, fastest = 0;
  for (const auto& [worker, v] : speed.points)
    slowest = std::min(slowest, v), fastest = std::max(fastest, v);
  return bars_picture("what each worker does",
                      {"computes", "waits for others", "waits for transfers"}, rows) +
         (fastest > 1.01 * slowest ? chart({"steps a second", "worker"}, {speed}) : "");
}

std::string exchange_pictures(const std::vector<dist::ExchangeCount>& counts) {
  std::map<std::string, std::vector<Curve>> charts;
  for (const dist::ExchangeCount& c : counts) {
    auto& curves = charts[c.graph];
    if (curves.empty())
      curves = {{.name = "synchronous"},
                {.name = "accelerated", .colour = 1},
                {.name = "A2CiD2", .colour = 2}};
    curves[0].points.emplace_back(c.workers, c.synchronous);
    curves[1].points.emplace_back(c.workers, c.accelerated);
    curves[2].points.emplace_back(c.workers, c.a2cid2);
  }
  std::string out;
  for (const auto& [graph, curves] : charts)
    out += chart({"exchanges until agreement, " + graph, "workers", true, true}, curves);
  return out;
}

std::string graph_pictures(const dist::Graph& g,
                           const std::vector<std::pair<std::string, double>>& decays) {
  std::vector<DrawnEdge> edges;
  for (const dist::Edge& e : g.edges)
    edges.push_back({e.a, e.b, e.rate, 0, fmt::format("{} - {}: {:.4g}", e.a, e.b, e.rate)});
  double slowest = INFINITY;
  for (const auto& [name, rate] : decays)
    if (rate > 0) slowest = std::min(slowest, rate);
  std::vector<Curve> curves;
  for (const auto& [name, rate] : decays)
    if (rate > 0)
      curves.push_back(decay(name, rate, 12 / slowest, static_cast<int>(curves.size())));
  return graph_picture(g.n, edges) +
         (curves.empty() ? "" : chart({"(x − x̄)², expected", kTime, true}, curves));
}

std::string rounds_picture(double rho) {
  if (!(rho > 0 && rho < 1)) return "";
  Curve curve = decay("", -2 * std::log(rho), 6 / -std::log(rho), 2);
  return chart({"(x − x̄)² by synchronous rounds", "rounds", true}, {curve});
}

void write_result_page(const std::string& file, const std::string& title,
                       const std::string& pictures, const std::string& json) {
  std::string body = "<div class=\"grid\">" + pictures + "</div>";
  HtmlTable table;
  const nlohmann::ordered_json numbers = nlohmann::ordered_json::parse(json);
  for (const auto& [key, value] : numbers.items())
    if (!value.is_structured())
      table.row({html_escape(key), "<code>" +
                                       html_escape(value.is_number_float()
                                                       ? fmt::format("{:.6g}", value.get<double>())
                                                   : value.is_string() ? value.get<std::string>()
                                                                       : value.dump()) +
                                       "</code>"});
  write_file(file, html_page(title, body + "<h2>Numbers</h2>" + table.html()));
}

}  // namespace gossamer::apps
