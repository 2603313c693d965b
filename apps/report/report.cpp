// The page of one run.
#include "gossamer/apps/report/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "gossamer/apps/report/csv.h"
#include "gossamer/apps/report/exchange_report.h"
#include "gossamer/apps/report/html.h"
#include "gossamer/apps/report/json_values.h"
#include "gossamer/apps/report/pictures.h"
#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/report/recent.h"
#include "gossamer/apps/report/trace_player.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/size_text.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/dist/method.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;

std::string value_text(const Json& v) {
  if (v.is_number_float()) return fmt::format("{:.6g}", v.get<double>());
  return v.is_string() ? v.get<std::string>() : v.dump();
}

// The values of each worker in the background, and their mean.
std::vector<Curve> workers_and_mean(const RunRecord& run, double StepRow::*y, std::string name) {
  std::vector<Curve> out;
  std::vector<Points> all;
  for (const auto& [rank, rows] : run.steps) {
    Points points;
    for (const StepRow& row : rows) points.emplace_back(row.epoch, row.*y);
    all.push_back(points);
    if (run.steps.size() > 1)
      out.push_back({.name = fmt::format("worker {}", rank), .points = points, .faint = true});
  }
  out.push_back({.name = std::move(name), .points = mean_of(all)});
  return out;
}

// Evaluations of the workers' own models, as a mean over the workers, and of the mean model. The
// only worker's model is both.
void add_evaluations(std::vector<Curve>& curves, const RunRecord& run, double EvalRow::*y,
                     const std::string& name, int colour, bool ema = false) {
  const std::vector<EvalRow>& evals = ema ? run.ema_evals : run.evals;
  const bool several = run.steps.size() > 1;
  Points own, final;
  for (const EvalRow& e : workers_evaluations(evals)) own.emplace_back(e.epoch, e.*y);
  for (const EvalRow& e : evals)
    if (e.rank < 0) (several ? final : own).emplace_back(e.epoch, e.*y);
  std::ranges::stable_sort(own);  // each leg may have ended with one
  if (!own.empty())
    curves.push_back({.name = name + (several ? " (workers)" : ""),
                      .points = own,
                      .colour = colour,
                      .dots = own.size() == 1});
  if (!final.empty())
    curves.push_back(
        {.name = name + " (mean model)", .points = final, .colour = colour, .dots = true});
}

std::string curves(const RunRecord& run) {
  std::string out;
  std::vector<Curve> loss = workers_and_mean(run, &StepRow::loss, "training");
  add_evaluations(loss, run, &EvalRow::loss, "validation", 1);
  out += chart({"loss", "epochs"}, loss);
  std::vector<Curve> score;
  if (run.task == "pictures") {
    add_evaluations(score, run, &EvalRow::top1, "top-1", 0);
    add_evaluations(score, run, &EvalRow::top5, "top-5", 2);
    add_evaluations(score, run, &EvalRow::top1, "top-1 of the EMA", 3, true);
    out += chart({"accuracy in % of the validation set", "epochs"}, score);
  } else {
    const ScoreColumn first = score_columns(run.task)[0];
    add_evaluations(score, run, first.value, first.title, 0);
    add_evaluations(score, run, first.value, std::string(first.title) + " of the EMA", 3, true);
    out += chart({std::string(first.title) + " of the validation set", "epochs"}, score);
  }
  out += chart({"learning rate", "epochs"}, workers_and_mean(run, &StepRow::learning_rate, ""));
  out += chart({run.unit + " a second, all workers", "epochs"},
               workers_and_mean(run, &StepRow::images_per_s, ""));
  std::vector<Curve> waits{{.name = "for data", .points = {}},
                           {.name = "for communication", .points = {}, .colour = 1}};
  waits[0].points = workers_and_mean(run, &StepRow::data_wait, "").back().points;
  waits[1].points = workers_and_mean(run, &StepRow::exposed, "").back().points;
  out += chart({"waiting, in % of the time", "epochs"}, waits);
  if (run.steps.size() > 1) {
    std::vector<Curve> consensus = workers_and_mean(run, &StepRow::consensus, "estimate");
    if (!run.exact_consensus.empty())
      consensus.push_back(
          {.name = "exact", .points = run.exact_consensus, .colour = 1, .dots = true});
    Curve target{.name = "target", .colour = 4};  // consensus control: the same of all workers
    for (const StepRow& row : run.steps.begin()->second)
      if (row.target > 0) target.points.emplace_back(row.epoch, row.target);
    if (!target.points.empty()) consensus.push_back(std::move(target));
    out += chart({"consensus distance", "epochs", true}, consensus);
  }
  const TimeUnit unit = time_unit(run.seconds);
  std::vector<Curve> by_time;
  for (const auto& [rank, rows] : run.steps) {
    Points points;
    for (const StepRow& row : rows) points.emplace_back(row.time / unit.seconds, row.loss);
    by_time.push_back({.name = fmt::format("worker {}", rank), .points = points, .faint = true});
  }
  std::vector<Points> all;
  for (const Curve& c : by_time) all.push_back(c.points);
  by_time.push_back({.name = "", .points = mean_of(all)});
  out += chart({"training loss against time", unit.name}, by_time);
  if (out.empty()) return "";
  return "<div class=\"grid\">" + out + "</div>" +
         (run.steps.size() > 1 ? "<p class=\"soft\">Faint: each worker; bold: their mean.</p>"
                               : "");
}

struct Edges {
  std::string picture, table;
};

// Of a run that goes on: the last minute.
std::string recent_graph(const RunRecord& run) {
  const Recent now = recent(run);
  std::vector<DrawnEdge> drawn;
  for (const auto& [pair, rate] : now.rates)
    drawn.push_back({.a = pair.first,
                     .b = pair.second,
                     .rate = rate,
                     .text = fmt::format("{} – {}: {:.3f} in the last {:.0f} s", pair.first,
                                         pair.second, rate, now.seconds)});
  const int workers = run.alive.empty() ? 0 : run.alive.rbegin()->first + 1;
  return graph_picture(workers, drawn, now.gone);
}

// In a method with rounds nobody asks for rates: the edges that a round joins exchange.
Edges edges(const RunRecord& run) {
  const Json& summary = run.summary;
  bool rounds = false;
  for (const auto& [key, value] : run.config)
    if (key == "train.method")
      rounds =
          value.size() > 2 && dist::method_traits(value.substr(1, value.size() - 2)).synchronous;
  if (!summary.is_object()) return {.picture = recent_graph(run), .table = {}};
  if (!summary.contains("edges") || !summary["edges"].is_array()) return {};
  std::vector<DrawnEdge> drawn;
  HtmlTable table({"workers", "rate", "requested", "exchanges", "failed", "refused", "staleness",
                   "at most", "distance", "ms each"});
  for (const Json& e : summary["edges"]) {
    if (!e.is_object() || !std::isfinite(number(e, "rate"))) continue;
    const double wanted = rounds ? 0 : number(e, "wanted");
    const DrawnEdge edge{
        whole(e, "a"), whole(e, "b"), number(e, "rate"), wanted,
        fmt::format("{} – {}: {:.3f}{}", whole(e, "a"), whole(e, "b"), number(e, "rate"),
                    rounds ? "" : fmt::format(" of {:.3f} requested", wanted))};
    drawn.push_back(edge);
    const int a = whole(e, "exchanges_a"), b = whole(e, "exchanges_b");
    table.row({fmt::format("{} – {}", edge.a, edge.b), fmt::format("{:.3f}", edge.rate),
               rounds ? "by rounds" : fmt::format("{:.3f}", edge.requested),
               a == b ? std::to_string(a) : fmt::format("{} / {}", a, b),
               std::to_string(whole(e, "failed")), std::to_string(whole(e, "refused")),
               fmt::format("{:.2f}", number(e, "staleness_mean")),
               std::to_string(whole(e, "staleness_max")),
               fmt::format("{:.3g}", number(e, "distance_mean")),
               fmt::format("{:.2f}", 1000 * number(e, "seconds_mean"))});
  }
  if (table.empty()) return {};
  std::string note;
  if (const double c1 = number(summary, "chi1_hat"), c2 = number(summary, "chi2_hat");
      !rounds && std::isfinite(c1) && std::isfinite(c2))
    note = fmt::format(
        "<p>Measured: &chi;&#770;<sub>1</sub> = {:.4g}, &chi;&#770;<sub>2</sub> = {:.4g}; the "
        "graph at the requested rate: {:.4g}, {:.4g}. Staleness: gradients of the worker between "
        "the snapshot and its use, {:.2f} on average.</p>",
        c1, c2, number(summary, "chi1"), number(summary, "chi2"),
        number(summary, "staleness_mean"));
  return {graph_picture(whole(summary, "workers"), drawn), "<h2>Edges</h2>" + note + table.html()};
}

std::string faults(const RunRecord& run) {
  if (run.marks.empty()) return "";
  HtmlTable table({"time", "event", "worker", "what", "written by"});
  for (const Mark& m : run.marks) {
    table.row({fmt::format("{:.1f} s", m.time), m.kind, std::to_string(m.worker),
               html_escape(m.what), listed(m.by)});
  }
  return "<h2>Faults and returns</h2>" + table.html();
}

std::string workers(const RunRecord& run) {
  const Json& summary = run.summary;
  if (!summary.is_object() || !summary.contains("each_worker")) return "";
  const bool pictures = run.task == "pictures";
  std::vector<std::string> header{"worker", "gradients",       "exchanges",
                                  "failed", "waited for data", "for communication",
                                  "time",   "tensors",         "main memory"};
  if (pictures) header.push_back("damaged images");
  HtmlTable table(header);
  const auto share = [](const Json& w, const char* key) {
    return fmt::format("{:.1f} %", 100 * number(w, key) / number(w, "wall_s"));
  };
  const auto memory = [](const Json& w, const char* key) {
    const double bytes = number(w, key);
    return bytes >= 0 ? size_text(static_cast<std::size_t>(bytes)) : "";
  };
  for (const Json& w : summary["each_worker"]) {
    if (!w.is_object() || !(number(w, "wall_s") > 0)) continue;
    std::vector<std::string> cells{std::to_string(whole(w, "rank")),
                                   fmt::format("{:.0f}", number(w, "gradients")),
                                   fmt::format("{:.0f}", number(w, "exchanges")),
                                   fmt::format("{:.0f}", number(w, "failed")),
                                   share(w, "data_wait_s"),
                                   share(w, "exposed_s"),
                                   fmt::format("{:.1f} s", number(w, "wall_s")),
                                   memory(w, "peak_bytes"),
                                   memory(w, "resident_bytes")};
    if (pictures) cells.push_back(fmt::format("{:.0f}", number(w, "damaged_images")));
    table.row(cells);
  }
  return table.empty() ? "" : "<h2>Workers</h2>" + table.html();
}

std::string warnings(const Json& summary) {
  if (!summary.is_object() || !summary.contains("warnings") || !summary["warnings"].is_array())
    return "";
  std::string out;
  for (const Json& each : summary["warnings"])
    if (each.is_string()) out += "<li>" + html_escape(each.get<std::string>()) + "</li>";
  return out.empty() ? "" : "<h2>Warnings</h2><ul>" + out + "</ul>";
}

// All that summary.json and the `launch` line hold; lists have tables of their own.
std::string values(const char* title, const Json& object) {
  if (!object.is_object()) return "";
  HtmlTable table;
  for (const auto& [key, value] : object.items())
    if (!value.is_structured() && key != "event" && key != "time" && key != "rank" &&
        key != "launch")
      table.row({html_escape(key), "<code>" + html_escape(value_text(value)) + "</code>"});
  return fmt::format("<h2>{}</h2>{}", title, table.html());
}

std::string headline(const RunRecord& run) {
  std::string out = fmt::format("<p class=\"lead{}\">{}", run.ended && !run.finished ? " bad" : "",
                                html_escape(run.outcome));
  if (run.finished && std::isfinite(number(run.summary, "top1")))  // none without data.val
    out += fmt::format(": top-1 <b>{:.2f} %</b>, top-5 {:.2f} % on {:.0f} images",
                       100 * number(run.summary, "top1"), 100 * number(run.summary, "top5"),
                       number(run.summary, "val_images"));
  const double bleu = number(run.summary, "bleu");
  if (run.finished && std::isfinite(number(run.summary, "perplexity")))
    out +=
        fmt::format(": {}loss <b>{:.4f}</b>, perplexity {} on {:.0f} tokens",
                    std::isfinite(bleu) ? fmt::format("BLEU <b>{:.2f}</b>, ", bleu) : "",
                    number(run.summary, "loss"), perplexity_text(number(run.summary, "perplexity")),
                    number(run.summary, "val_tokens"));
  if (const Json& s = run.summary; s.is_object() && s.contains("best")) {
    const Json& best = s["best"];
    const bool by_loss = std::ranges::count(run.config, std::pair<std::string, std::string>(
                                                            "run.best_by", "\"loss\"")) > 0;
    const double top1 = number(best, "top1");
    out += fmt::format("; the best{}{} at epoch {:.2f}: {}loss {:.4g}", by_loss ? " by loss" : "",
                       text(best, "of") == "ema" ? " (EMA)" : "", number(best, "epoch"),
                       std::isfinite(top1) ? fmt::format("top-1 {:.2f} %, ", 100 * top1) : "",
                       number(best, "loss"));
  }
  if (run.finished && run.summary.is_object() && run.summary.contains("stopped_early") &&
      run.summary["stopped_early"] == true)
    out += "; train.patience ended it early";
  out += "</p>";
  std::string what;
  for (const auto& [key, value] : run.config)
    if ((key == "model.name" || key == "train.method" || key == "train.graph") && value.size() > 2)
      what += (what.empty() ? "" : ", ") + value.substr(1, value.size() - 2);  // without quotes
  return out + fmt::format("<p class=\"soft\">{}, {} worker{}, {:.0f} s</p>", html_escape(what),
                           run.alive.size(), run.alive.size() == 1 ? "" : "s", run.seconds);
}

std::string body_with(const RunRecord& run, const std::string& trace) {
  const Edges graph = edges(run);
  const bool several = run.alive.size() > 1 || !run.marks.empty();
  const std::string pictures = (several ? timeline(run) : "") + graph.picture;
  std::string body = headline(run) + warnings(run.summary) + curves(run);
  if (!pictures.empty()) body += "<div class=\"grid\">" + pictures + "</div>";
  return body + trace + exchange_report(run) + faults(run) + graph.table + workers(run) +
         class_report_html(run.classes) + values("Result", run.summary) +
         values("Command and machine", run.launch) +
         "<h2>Configuration</h2><details><summary>config.toml</summary><pre>" +
         html_escape(run.config_text) + "</pre></details>";
}

}  // namespace

std::string body_of(const RunRecord& run) { return body_with(run, ""); }

void write_page(const RunRecord& run, const fs::path& folder, const fs::path& page) {
  const std::string trace = trace_player(folder);
  write_file(page, html_page("Run " + run.name, body_with(run, trace),
                             trace.empty() ? PageMay::show : PageMay::run));
}

void write_report(const RunRecord& run, const fs::path& folder) {
  write_page(run, folder, folder / "report.html");
  write_csv(run, folder / "log.csv");
}

}  // namespace gossamer::apps
