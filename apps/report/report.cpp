// report.html: curves, pictures and tables of a run on one page without scripts or network. All
// text of the run is escaped.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "gossamer/apps/report/report_pictures.h"
#include "gossamer/apps/report/run_folder.h"
#include "gossamer/core/safetensors.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;

const char* const kStyle =
    "<style>"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;padding:0 1em;"
    "color:#222;background:#fff}"
    "svg{width:100%;margin:1em 0}.g{stroke:#ddd}.a{font-size:11px;fill:#666}.r{text-anchor:end}"
    ".m{text-anchor:middle}.t{font-size:14px;fill:#222}"
    "table{border-collapse:collapse;font-size:13px;display:block;overflow-x:auto}"
    "td,th{border-bottom:1px solid #ddd;padding:2px 10px 2px 0;text-align:left}"
    "pre{background:#f4f4f4;padding:1em;overflow-x:auto;font-size:12px}"
    "@media(prefers-color-scheme:dark){"
    "body{background:#181818;color:#ddd}.t{fill:#ddd}.n{fill:#ddd}.g{stroke:#333}.a{fill:#999}"
    "pre{background:#222}td,th{border-color:#333}}"
    "</style>";

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

double number(const Json& e, const char* key) {
  return e.contains(key) && e[key].is_number() ? e[key].get<double>() : NAN;
}
int whole(const Json& e, const char* key, int otherwise) {
  return e.contains(key) && e[key].is_number_integer() ? e[key].get<int>() : otherwise;
}
std::string text(const Json& e, const char* key) {
  return e.contains(key) && e[key].is_string() ? e[key].get<std::string>() : "";
}

std::string value_text(const Json& v) {
  if (v.is_number_float()) return fmt::format("{:.6g}", v.get<double>());
  return v.is_string() ? v.get<std::string>() : v.dump();
}

// The contents of log.jsonl.
struct Log {
  std::map<int, Curve> loss, consensus, top1;
  Curve exact{.name = "exact", .points = {}, .dots = true};
  std::map<int, std::vector<double>> activity;  // when each worker wrote a line
  std::vector<Mark> marks;
};

Log read_log(const fs::path& path) {
  Log out;
  double start = NAN;
  std::istringstream in(read_text(path));
  for (std::string line; std::getline(in, line);) {
    const Json e = Json::parse(line, nullptr, false);
    if (!e.is_object()) continue;  // a line cut short by a crash
    const std::string event = text(e, "event");
    const int rank = whole(e, "rank", 0), peer = whole(e, "peer", rank);
    const double time = number(e, "time"), epoch = number(e, "epoch");
    if (!std::isfinite(time)) continue;
    // workers share the file, so the lines are almost in the order of their times
    if (!std::isfinite(start)) start = time;
    out.activity[rank].push_back(std::max(0.0, time - start));
    if (event == "step") {
      out.loss[rank].points.emplace_back(epoch, number(e, "loss"));
      out.consensus[rank].points.emplace_back(epoch, number(e, "consensus_distance"));
    } else if (event == "consensus" && rank == 0) {
      out.exact.points.emplace_back(epoch, number(e, "exact"));
    } else if (event == "eval" && std::isfinite(epoch)) {
      out.top1[rank].points.emplace_back(epoch, 100 * number(e, "top1"));
    } else if (event == "fault" || event == "joined" || event == "refused" || event == "inject") {
      out.marks.push_back(
          {std::max(0.0, time - start), peer < 0 || event == "inject" ? rank : peer, event,
           fmt::format("worker {}: {}", rank,
                       (peer != rank && peer >= 0 ? fmt::format("worker {} ", peer) : "") +
                           text(e, "what"))});
    }
  }
  return out;
}

std::vector<Curve> curves(std::map<int, Curve>& by_rank) {
  std::vector<Curve> out;
  for (auto& [rank, curve] : by_rank) {
    curve.name = "rank " + std::to_string(rank);
    out.push_back(std::move(curve));
  }
  return out;
}

// A row of a table. The cells are HTML; tag: td or th.
std::string row_of(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string out;
  for (const std::string& cell : cells) out += fmt::format("<{0}>{1}</{0}>", tag, cell);
  return "<tr>" + out + "</tr>";
}

// A table of JSON objects; the header is the keys of the first.
std::string table_of(const Json& rows) {
  std::string out;
  for (const Json& row : rows) {
    if (!row.is_object()) continue;
    std::vector<std::string> keys, values;
    for (const auto& [key, value] : row.items()) {
      keys.push_back(html_escape(key));
      values.push_back(html_escape(value_text(value)));
    }
    if (out.empty()) out = row_of(keys, "th");
    out += row_of(values);
  }
  return out.empty() ? "" : "<table>" + out + "</table>";
}

std::string edges_section(const Json& summary) {
  const auto found = summary.find("edges");
  if (found == summary.end() || !found->is_array() || found->empty()) return "";
  std::vector<DrawnEdge> drawn;
  std::string rows = row_of({"workers", "rate", "requested", "exchanges", "failed", "staleness",
                             "at most", "distance", "ms"},
                            "th");
  for (const Json& e : *found) {
    if (!e.is_object()) continue;
    const DrawnEdge edge{whole(e, "a", 0), whole(e, "b", 0), number(e, "rate"), number(e, "wanted"),
                         fmt::format("{} – {}: {:.3f} of {:.3f} requested", whole(e, "a", 0),
                                     whole(e, "b", 0), number(e, "rate"), number(e, "wanted"))};
    if (!std::isfinite(edge.rate)) continue;
    drawn.push_back(edge);
    const int a = whole(e, "exchanges_a", 0), b = whole(e, "exchanges_b", 0);
    rows += row_of({fmt::format("{} – {}", edge.a, edge.b), fmt::format("{:.3f}", edge.rate),
                    fmt::format("{:.3f}", edge.requested),
                    a == b ? std::to_string(a) : fmt::format("{} / {}", a, b),
                    std::to_string(whole(e, "failed", 0)),
                    fmt::format("{:.2f}", number(e, "staleness_mean")),
                    std::to_string(whole(e, "staleness_max", 0)),
                    fmt::format("{:.3g}", number(e, "distance_mean")),
                    fmt::format("{:.2f}", 1000 * number(e, "seconds_mean"))});
  }
  std::string out = "<h2>Edges</h2>" + graph_picture(whole(summary, "workers", 0), drawn);
  if (const double c1 = number(summary, "chi1_hat"), c2 = number(summary, "chi2_hat");
      std::isfinite(c1) && std::isfinite(c2))
    out += fmt::format(
        "<p>Measured: &chi;&#770;<sub>1</sub> = {:.4g}, &chi;&#770;<sub>2</sub> = {:.4g}; the "
        "graph at the requested rate: {:.4g}, {:.4g}. Staleness: gradients of the worker between "
        "the snapshot and its use, {:.2f} on average.</p>",
        c1, c2, number(summary, "chi1"), number(summary, "chi2"),
        number(summary, "staleness_mean"));
  return out + "<table>" + rows + "</table>";
}

std::string faults_section(const Log& log) {
  if (log.marks.empty()) return "";
  std::string rows;
  for (const Mark& m : log.marks)
    rows += row_of({fmt::format("{:.1f} s", m.time), m.kind, html_escape(m.text)});
  return "<h2>Faults and returns</h2>" + timeline(log.activity, log.marks) + "<table>" + rows +
         "</table>";
}

}  // namespace

void write_report(const fs::path& folder) {
  Log log = read_log(folder / "log.jsonl");
  const Json summary = Json::parse(read_text(folder / "summary.json"), nullptr, false);
  std::string rows, edges, workers, headline = "run";
  if (summary.is_object()) {
    for (const auto& [key, value] : summary.items())
      if (!value.is_array()) rows += row_of({html_escape(key), html_escape(value_text(value))});
    const double top1 = number(summary, "top1");  // none without data.val
    headline = (std::isfinite(top1) ? fmt::format("top-1 {:.2f} %: ", 100 * top1) : "") +
               fmt::format("{} by {} on {} worker(s)", text(summary, "model"),
                           text(summary, "method"), whole(summary, "workers", 1));
    edges = edges_section(summary);
    workers = table_of(summary.value("each_worker", Json::array()));
  }
  const std::string name = folder.filename().string();
  std::string page =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\">"
      "<meta http-equiv=\"Content-Security-Policy\""
      " content=\"default-src 'none'; style-src 'unsafe-inline'\">";
  page += fmt::format("<title>{} - Gossamer</title>", html_escape(name));
  page += kStyle;
  page += fmt::format("<h1>{}</h1><p>{}</p>", html_escape(name), html_escape(headline));
  std::vector<Curve> consensus = curves(log.consensus);
  if (!log.exact.points.empty()) consensus.push_back(log.exact);
  page += chart("training loss", "epochs (all workers)", curves(log.loss), false);
  page += chart("consensus distance (log)", "epochs (all workers)", std::move(consensus), true);
  page +=
      chart("top-1 % of the workers' own models", "epochs (all workers)", curves(log.top1), false);
  page += faults_section(log) + edges + "<h2>Summary</h2><table>" + rows + "</table>";
  if (!workers.empty()) page += "<h2>Workers</h2>" + workers;
  page += "<h2>Configuration</h2><pre>" + html_escape(read_text(folder / "config.toml")) +
          "</pre></html>\n";
  write_file(folder / "report.html", page);
}

}  // namespace gossamer::apps
