// Several runs on one page: common axes, results, and the keys in which their configurations
// differ.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "gossamer/apps/report/html.h"
#include "gossamer/apps/report/json_values.h"
#include "gossamer/apps/report/pictures.h"
#include "gossamer/apps/report/report.h"
#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {
namespace {

// The mean over the workers of one number of a run.
template <class X, class Y>
Points mean_over_workers(const RunRecord& run, X x, Y y) {
  std::vector<Points> all;
  for (const auto& [rank, rows] : run.steps) {
    Points points;
    for (const StepRow& row : rows) points.emplace_back(x(row), y(row));
    all.push_back(points);
  }
  return all.empty() ? Points{} : mean_of(all);
}

template <class PointsOf>
std::string chart_of(const std::vector<RunRecord>& runs, const ChartText& text, PointsOf&& points) {
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i)
    curves.push_back(
        {.name = runs[i].name, .points = points(runs[i]), .colour = static_cast<int>(i)});
  return chart(text, curves);
}

// The evaluations of the workers' own models on the way, then that of the final model.
template <class X>
Points evaluations(const RunRecord& run, X x, double EvalRow::*y) {
  Points out;
  for (const EvalRow& e : workers_evaluations(run.evals)) out.emplace_back(x(e), e.*y);
  for (const EvalRow& e : run.evals)
    if (e.rank < 0) out.emplace_back(x(e), e.*y);
  return out;
}

std::string value(const RunRecord& run, const char* key, const char* format, double factor = 1) {
  const double v = number(run.summary, key);
  return std::isfinite(v) ? fmt::format(fmt::runtime(format), factor * v) : "";
}

// The columns of the tasks that these runs have.
std::vector<ScoreColumn> columns_of(const std::vector<RunRecord>& runs) {
  std::vector<ScoreColumn> out;
  for (const RunRecord& run : runs)
    for (const ScoreColumn& column : score_columns(run.task))
      if (std::ranges::find(out, column.value, &ScoreColumn::value) == out.end())
        out.push_back(column);
  return out;
}

// What samples are, of runs of several kinds of both.
std::string unit_of(const std::vector<RunRecord>& runs) {
  const auto other = [&](const RunRecord& run) { return run.unit != runs[0].unit; };
  return std::ranges::any_of(runs, other) ? "images or tokens" : runs[0].unit;
}

std::string results(const std::vector<RunRecord>& runs) {
  const std::vector<ScoreColumn> scores = columns_of(runs);
  std::vector<std::string> header{"run", "end"};
  for (const ScoreColumn& score : scores) header.emplace_back(score.title);
  for (const std::string& more :
       {std::string("loss"), unit_of(runs), std::string("seconds"), unit_of(runs) + " a second",
        std::string("exchanges per gradient"), std::string("consensus distance")})
    header.push_back(more);
  HtmlTable table(header);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& r = runs[i];
    std::vector<std::string> cells{
        fmt::format("{}&nbsp;<b>{}</b>", colour_mark(static_cast<int>(i), "■"),
                    html_escape(r.name)),
        html_escape(r.outcome)};
    for (const ScoreColumn& score : scores)
      cells.push_back(value(r, score.name, score.format, score.factor));
    for (const std::string& more :
         {value(r, "loss", "{:.4f}"), value(r, "samples", "{:.0f}"), value(r, "wall_s", "{:.1f}"),
          value(r, (r.unit + "_per_s").c_str(), "{:.0f}"),
          value(r, "exchanges_per_gradient", "{:.2f}"), value(r, "consensus_distance", "{:.3g}")})
      cells.push_back(more);
    table.row(cells);
  }
  return "<h2>Results</h2>" + table.html();
}

std::string differences(const std::vector<RunRecord>& runs) {
  std::vector<std::string> header{"key"}, keys;
  std::vector<std::map<std::string, std::string>> values;
  std::set<std::string> known;
  for (const RunRecord& run : runs) {
    header.push_back(html_escape(run.name));
    values.emplace_back(run.config.begin(), run.config.end());
    for (const auto& [key, text] : run.config)
      if (known.insert(key).second) keys.push_back(key);
  }
  HtmlTable table(header);
  for (const std::string& key : keys) {
    std::vector<std::string> cells{"<code>" + key + "</code>"};
    std::set<std::string> different;
    for (const auto& of_run : values) {
      const auto found = of_run.find(key);
      const std::string text = found == of_run.end() ? "" : found->second;
      different.insert(text);
      cells.push_back("<code>" + html_escape(text) + "</code>");
    }
    if (different.size() > 1 && key != "run.name" && key != "run.dir") table.row(cells);
  }
  return "<h2>Configurations</h2>" + (table.empty() ? "<p>They do not differ.</p>" : table.html());
}

}  // namespace

std::string body_of_comparison(const std::vector<RunRecord>& runs) {
  const auto images = [](const auto& row) { return row.images; };
  double longest_s = 0;
  for (const RunRecord& run : runs) longest_s = std::max(longest_s, run.seconds);
  const TimeUnit unit = time_unit(longest_s);
  const auto time = [&](const auto& row) { return row.time / unit.seconds; };
  const auto loss = [](const StepRow& row) { return row.loss; };
  const auto consensus = [](const StepRow& row) { return row.consensus; };
  const auto speed = [](const StepRow& row) { return row.images_per_s; };
  const std::string samples = unit_of(runs);
  std::string charts;
  charts += chart_of(runs, {"training loss", samples},
                     [&](const RunRecord& r) { return mean_over_workers(r, images, loss); });
  charts += chart_of(runs, {"training loss against time", unit.name},
                     [&](const RunRecord& r) { return mean_over_workers(r, time, loss); });
  for (const ScoreColumn& score : columns_of(runs)) {
    if (score.value == &EvalRow::top5) continue;
    const std::string title = score.title;
    charts += chart_of(runs, {title + " of the validation set", samples},
                       [&](const RunRecord& r) { return evaluations(r, images, score.value); });
    charts += chart_of(runs, {title + " against time", unit.name},
                       [&](const RunRecord& r) { return evaluations(r, time, score.value); });
  }
  charts += chart_of(runs, {samples + " a second, all workers", samples},
                     [&](const RunRecord& r) { return mean_over_workers(r, images, speed); });
  charts += chart_of(runs, {"consensus distance", samples, true}, [&](const RunRecord& r) {
    return r.steps.size() > 1 ? mean_over_workers(r, images, consensus) : Points{};
  });
  return results(runs) + "<div class=\"grid\">" + charts + "</div>" + differences(runs);
}

void write_comparison(const std::vector<RunRecord>& runs, const std::filesystem::path& page) {
  write_file(page, html_page("Comparison of runs", body_of_comparison(runs)));
}

}  // namespace gossamer::apps
