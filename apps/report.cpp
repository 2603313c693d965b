// report.html: curves and tables of one run on one page without scripts or network. Everything printed is escaped.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gossamer/apps/run_folder.h"
#include "gossamer/core/safetensors.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

const char* const kColours[] = {"#2a6fbb", "#c8553d", "#3b8f5a", "#8a5fb0", "#b58900", "#3aa6a6", "#d05a9c", "#777777"};

std::string escape(const std::string& text) {
  std::string out;
  for (const char ch : text) {
    if (ch == '<') out += "&lt;";
    else if (ch == '>') out += "&gt;";
    else if (ch == '&') out += "&amp;";
    else if (ch == '"') out += "&quot;";
    else out += ch;
  }
  return out;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// At most `limit` points: means of equal pieces.
std::vector<std::pair<double, double>> thin(const std::vector<std::pair<double, double>>& in, std::size_t limit) {
  if (in.size() <= limit) return in;
  std::vector<std::pair<double, double>> out;
  for (std::size_t k = 0; k < limit; ++k) {
    const std::size_t begin = k * in.size() / limit, end = (k + 1) * in.size() / limit;
    double x = 0, y = 0;
    for (std::size_t i = begin; i < end; ++i) x += in[i].first, y += in[i].second;
    out.emplace_back(x / static_cast<double>(end - begin), y / static_cast<double>(end - begin));
  }
  return out;
}

std::string chart(const std::string& title, std::vector<Curve> curves, bool logarithmic) {
  double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
  for (Curve& c : curves) {
    if (logarithmic) std::erase_if(c.points, [](const auto& p) { return p.second <= 0; });
    c.points = thin(c.points, 300);
    for (auto& [x, y] : c.points) {
      if (logarithmic) y = std::log10(y);
      x0 = std::min(x0, x), x1 = std::max(x1, x), y0 = std::min(y0, y), y1 = std::max(y1, y);
    }
  }
  if (!(x1 > x0)) return "";
  if (!(y1 > y0)) y0 -= 1, y1 += 1;
  if (!logarithmic) y0 = std::min(y0, 0.0);
  const double left = 60, right = 700, top = 30, bottom = 240;
  const auto px = [&](double x) { return left + (x - x0) / (x1 - x0) * (right - left); };
  const auto py = [&](double y) { return bottom - (y - y0) / (y1 - y0) * (bottom - top); };
  std::string svg = fmt::format("<svg viewBox=\"0 0 720 275\" role=\"img\" aria-label=\"{0}\"><text x=\"60\" y=\"16\" class=\"t\">{0}</text>", escape(title));
  for (int i = 0; i <= 4; ++i) {
    const double y = y0 + (y1 - y0) * i / 4, x = x0 + (x1 - x0) * i / 4;
    svg += fmt::format("<line x1=\"60\" x2=\"700\" y1=\"{0:.1f}\" y2=\"{0:.1f}\" class=\"g\"/><text x=\"54\" y=\"{1:.1f}\" class=\"a r\">{2:.3g}</text>", py(y),
                       py(y) + 4, logarithmic ? std::pow(10, y) : y);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"258\" class=\"a m\">{:.3g}</text>", px(x), x);
  }
  svg += "<text x=\"380\" y=\"273\" class=\"a m\">epochs (all workers)</text>";
  std::size_t colour = 0;
  double legend = 300;
  for (const Curve& c : curves) {
    if (c.points.empty()) continue;
    const char* stroke = kColours[colour++ % std::size(kColours)];
    svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"", stroke);
    for (const auto& [x, y] : c.points) svg += fmt::format("{:.1f},{:.1f} ", px(x), py(y));
    svg += "\"/>";
    if (curves.size() <= 8) {
      svg += fmt::format("<text x=\"{:.0f}\" y=\"16\" class=\"a\" style=\"fill:{}\">{}</text>", legend, stroke, escape(c.name));
      legend += 52;
    }
  }
  return svg + "</svg>";
}

std::string value_text(const Json& v) {
  if (v.is_number_float()) return fmt::format("{:.6g}", v.get<double>());
  return v.is_string() ? v.get<std::string>() : v.dump();
}

}  // namespace

void write_report(const fs::path& folder) {
  std::map<int, Curve> loss, consensus;
  std::string faults;
  double epoch_size = 1;
  std::istringstream log(read_text(folder / "log.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const Json e = Json::parse(line, nullptr, false);
    if (!e.is_object()) continue;                          // a line cut short by a crash
    const std::string event = e.value("event", "");
    const int rank = e.value("rank", 0);
    const auto number = [&](const char* key) { return e.contains(key) && e[key].is_number() ? e[key].get<double>() : NAN; };
    if (event == "step" && number("epoch") > 0) {
      epoch_size = number("samples") / number("epoch");
      loss[rank].points.emplace_back(number("epoch"), number("loss"));
    } else if (event == "exchange") {
      consensus[rank].points.emplace_back(number("samples") / epoch_size, number("consensus_distance"));
    } else if (event == "fault") {
      faults += fmt::format("<tr><td>worker {}</td><td>peer {}: {}</td></tr>", rank, e.value("peer", -1), escape(e.value("what", "")));
    }
  }
  const auto curves = [](std::map<int, Curve>& by_rank) {
    std::vector<Curve> out;
    for (auto& [rank, curve] : by_rank) {
      curve.name = "rank " + std::to_string(rank);
      std::erase_if(curve.points, [](const auto& p) { return !std::isfinite(p.first) || !std::isfinite(p.second); });
      out.push_back(std::move(curve));
    }
    return out;
  };
  const Json summary = Json::parse(read_text(folder / "summary.json"), nullptr, false);
  std::string rows, workers, head = "run";
  if (summary.is_object()) {
    for (const auto& [key, value] : summary.items())
      if (key != "each_worker") rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>", escape(key), escape(value_text(value)));
    head = fmt::format("top-1 {:.2f} %: {} by {} on {} worker(s)", 100 * summary.value("top1", 0.0), summary.value("model", "?"), summary.value("method", "?"),
                       summary.value("workers", 1));
    for (const Json& row : summary.value("each_worker", Json::array())) {
      if (workers.empty()) {
        workers = "<tr>";
        for (const auto& [key, value] : row.items()) workers += "<th>" + escape(key) + "</th>";
        workers += "</tr>";
      }
      workers += "<tr>";
      for (const auto& [key, value] : row.items()) workers += "<td>" + escape(value_text(value)) + "</td>";
      workers += "</tr>";
    }
  }
  const std::string name = folder.filename().string();
  std::string page = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">";
  page += fmt::format("<title>{} - Gossamer</title>", escape(name));
  page += "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
          "svg{width:100%;margin:1em 0}.g{stroke:#ddd}.a{font-size:11px;fill:#666}.r{text-anchor:end}.m{text-anchor:middle}.t{font-size:14px;fill:#222}"
          "table{border-collapse:collapse;font-size:13px;display:block;overflow-x:auto}td,th{border-bottom:1px solid #ddd;padding:2px 10px 2px 0;text-align:left}"
          "pre{background:#f4f4f4;padding:1em;overflow-x:auto;font-size:12px}"
          "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}.t{fill:#ddd}.g{stroke:#333}.a{fill:#999}pre{background:#222}td,th{border-color:#333}}</style>";
  page += fmt::format("<h1>{}</h1><p>{}</p>", escape(name), escape(head));
  page += chart("training loss", curves(loss), false) + chart("consensus distance (log)", curves(consensus), true);
  if (!faults.empty()) page += "<h2>Faults</h2><table>" + faults + "</table>";
  page += "<h2>Summary</h2><table>" + rows + "</table>";
  if (!workers.empty()) page += "<h2>Workers</h2><table>" + workers + "</table>";
  page += "<h2>Configuration</h2><pre>" + escape(read_text(folder / "config.toml")) + "</pre></html>\n";
  write_file(folder / "report.html", page);
}

}  // namespace gossamer::apps
