// See report_pictures.h.
#include "gossamer/apps/report/report_pictures.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

#include <fmt/format.h>

namespace gossamer::apps {
namespace {

const char* const kColours[] = {"#2a6fbb", "#c8553d", "#3b8f5a", "#8a5fb0",
                                "#b58900", "#3aa6a6", "#d05a9c", "#777777"};
constexpr double kLeft = 60, kRight = 700;  // edges of the drawing; a picture is 720 wide

std::vector<std::pair<double, double>> thin(const std::vector<std::pair<double, double>>& in,
                                            std::size_t limit) {
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

std::string head(const std::string& title, double height) {
  return fmt::format(
      "<svg viewBox=\"0 0 720 {1:.0f}\" role=\"img\" aria-label=\"{0}\"><text x=\"60\" y=\"16\" "
      "class=\"t\">{0}</text>",
      html_escape(title), height);
}

}  // namespace

std::string html_escape(const std::string& text) {
  std::string out;
  for (const char ch : text) {
    if (ch == '<')
      out += "&lt;";
    else if (ch == '>')
      out += "&gt;";
    else if (ch == '&')
      out += "&amp;";
    else if (ch == '"')
      out += "&quot;";
    else
      out += ch;
  }
  return out;
}

std::string chart(const std::string& title, const std::string& x_label, std::vector<Curve> curves,
                  bool logarithmic) {
  double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
  for (Curve& c : curves) {
    std::erase_if(c.points, [&](const auto& p) {
      return !std::isfinite(p.first) || !std::isfinite(p.second) || (logarithmic && p.second <= 0);
    });
    c.points = thin(c.points, 300);
    for (auto& [x, y] : c.points) {
      if (logarithmic) y = std::log10(y);
      x0 = std::min(x0, x), x1 = std::max(x1, x), y0 = std::min(y0, y), y1 = std::max(y1, y);
    }
  }
  if (!(x1 > x0)) return "";
  if (!(y1 > y0)) y0 -= 1, y1 += 1;
  if (!logarithmic) y0 = std::min(y0, 0.0);
  const double top = 30, bottom = 240;
  const auto px = [&](double x) { return kLeft + (x - x0) / (x1 - x0) * (kRight - kLeft); };
  const auto py = [&](double y) { return bottom - (y - y0) / (y1 - y0) * (bottom - top); };
  std::string svg = head(title, 275);
  for (int i = 0; i <= 4; ++i) {
    const double y = y0 + (y1 - y0) * i / 4, x = x0 + (x1 - x0) * i / 4;
    svg += fmt::format(
        "<line x1=\"60\" x2=\"700\" y1=\"{0:.1f}\" y2=\"{0:.1f}\" class=\"g\"/><text x=\"54\" "
        "y=\"{1:.1f}\" class=\"a r\">{2:.3g}</text>",
        py(y), py(y) + 4, logarithmic ? std::pow(10, y) : y);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"258\" class=\"a m\">{:.3g}</text>", px(x), x);
  }
  svg += fmt::format("<text x=\"380\" y=\"273\" class=\"a m\">{}</text>", html_escape(x_label));
  std::size_t colour = 0;
  double legend = 300;
  for (const Curve& c : curves) {
    if (c.points.empty()) continue;
    const char* stroke = kColours[colour++ % std::size(kColours)];
    if (c.dots) {
      for (const auto& [x, y] : c.points)
        svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>", px(x),
                           py(y), stroke);
    } else {
      svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"",
                         stroke);
      for (const auto& [x, y] : c.points) svg += fmt::format("{:.1f},{:.1f} ", px(x), py(y));
      svg += "\"/>";
    }
    if (curves.size() <= 8) {
      svg += fmt::format("<text x=\"{:.0f}\" y=\"16\" class=\"a\" style=\"fill:{}\">{}</text>",
                         legend, stroke, html_escape(c.name));
      legend += 52;
    }
  }
  return svg + "</svg>";
}

std::string graph_picture(int workers, const std::vector<DrawnEdge>& edges) {
  constexpr int kMostWorkers = 128;  // with more, the dots run together
  if (edges.empty() || workers < 2 || workers > kMostWorkers) return "";
  const double cx = 360, cy = 200, radius = 150;
  const auto at = [&](int worker, double r) {
    const double angle = 2 * std::numbers::pi * worker / workers - std::numbers::pi / 2;
    return std::pair(cx + r * std::cos(angle), cy + r * std::sin(angle));
  };
  double most = 0;
  for (const DrawnEdge& e : edges) most = std::max(most, e.rate);
  std::string svg =
      head("exchanges per gradient on each edge; red: less than 2/3 of the requested rate", 380);
  for (const DrawnEdge& e : edges) {
    const auto [x1, y1] = at(e.a, radius);
    const auto [x2, y2] = at(e.b, radius);
    const bool poor = e.requested > 0 && e.rate < e.requested * 2 / 3;
    svg += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"{:.2f}\"{}><title>{}</title></line>",
        x1, y1, x2, y2, poor ? "#c8553d" : "#2a6fbb", most > 0 ? 0.5 + 6 * e.rate / most : 0.5,
        e.rate > 0 ? "" : " stroke-dasharray=\"3 4\"", html_escape(e.text));
    if (edges.size() <= 16) {  // beside the line
      const double length = std::hypot(x2 - x1, y2 - y1), side = 16 / std::max(1.0, length);
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"a m\">{:.2f}</text>",
                         (x1 + x2) / 2 + side * (y1 - y2), (y1 + y2) / 2 + side * (x2 - x1) + 4,
                         e.rate);
    }
  }
  for (int w = 0; w < workers; ++w) {
    const auto [x, y] = at(w, radius);
    const auto [tx, ty] = at(w, radius + 16);
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"#222\" class=\"n\"/>",
                       x, y, workers <= 32 ? 5 : 3);
    if (workers <= 64)
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"a m\">{}</text>", tx, ty + 4, w);
  }
  return svg + "</svg>";
}

std::string timeline(const std::map<int, std::vector<double>>& activity,
                     const std::vector<Mark>& marks) {
  double end = 0;
  for (const auto& [worker, times] : activity)
    for (const double t : times) end = std::max(end, t);
  for (const Mark& m : marks) end = std::max(end, m.time);
  if (activity.empty() || !(end > 0)) return "";
  std::map<int, double> rows;  // worker -> y
  for (const auto& [worker, times] : activity) rows[worker];
  for (const Mark& m : marks) rows[m.worker];
  double y = 30;
  for (auto& [worker, at] : rows) at = y += 16;
  // If a worker writes nothing for longer, it was away or stopped, and its line has a gap.
  const double gap = std::max(3.0, end / 100);
  const auto px = [&](double t) { return kLeft + t / end * (kRight - kLeft); };
  std::string svg =
      head("workers over time (red: lost, green: back, orange: injected, grey: refused)", y + 40);
  for (const auto& [worker, at] : rows) {
    svg += fmt::format("<text x=\"54\" y=\"{:.1f}\" class=\"a r\">{}</text>", at + 4, worker);
    const auto found = activity.find(worker);
    if (found == activity.end()) continue;
    std::vector<double> times = found->second;
    std::ranges::sort(times);
    for (std::size_t i = 0; i < times.size();) {
      std::size_t last = i;
      while (last + 1 < times.size() && times[last + 1] - times[last] <= gap) ++last;
      svg += fmt::format(
          "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#2a6fbb\" "
          "stroke-width=\"5\"/>",
          px(times[i]), std::max(px(times[last]), px(times[i]) + 1), at, at);
      i = last + 1;
    }
  }
  for (const Mark& m : marks) {
    const char* fill = m.kind == "joined"    ? "#3b8f5a"
                       : m.kind == "inject"  ? "#d98a00"
                       : m.kind == "refused" ? "#888888"
                                             : "#c8553d";
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\" fill=\"{}\"><title>{}</title></circle>",
        px(m.time), rows[m.worker], fill, html_escape(fmt::format("{:.1f} s: {}", m.time, m.text)));
  }
  for (int i = 0; i <= 4; ++i)
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"a m\">{:.3g} s</text>",
                       px(end * i / 4), y + 30, end * i / 4);
  return svg + "</svg>";
}

}  // namespace gossamer::apps
