// See pictures.h.
#include "gossamer/apps/report/pictures.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "gossamer/apps/report/html.h"
#include "gossamer/dist/edge_statistics.h"

namespace gossamer::apps {
namespace {

constexpr double kWidth = 340, kLeft = 42, kRight = 286;  // the drawing lies between the two
constexpr double kTop = 26, kBottom = 188;

Points thin(const Points& in, std::size_t limit) {
  if (in.size() <= limit) return in;
  Points out;
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
      "<svg viewBox=\"0 0 {2:.0f} {1:.0f}\" role=\"img\" aria-label=\"{0}\"><text x=\"0\" "
      "y=\"14\" class=\"t\">{0}</text>",
      html_escape(title), height, kWidth);
}

std::string label(double x, double y, const char* where, const std::string& text,
                  const std::string& style = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"a {}\"{}>{}</text>", x, y, where,
                     style, html_escape(text));
}

// At most seven characters, so that it fits: 12k, 1234, 0.0123, 1.5e-6.
std::string short_number(double v) {
  const double size = std::abs(v);
  if (size >= 1e6) return fmt::format("{:.4g}M", v / 1e6);
  if (size >= 1e4) return fmt::format("{:.4g}k", v / 1e3);
  if (size >= 100) return fmt::format("{:.0f}", v);
  if (size >= 1e-3) return fmt::format("{:.3g}", v);
  if (size < 1e-12) return "0";
  const double power = std::floor(std::log10(size));
  return fmt::format("{:.2g}e{:.0f}", v / std::pow(10, power), power);
}

// 10^exponent, which short_number would call 0 or count in millions.
std::string power_text(double exponent) {
  if (exponent >= -12 && exponent < 9) return short_number(std::pow(10, exponent));
  const double whole = std::floor(exponent + 1e-9);
  return fmt::format("{:.2g}e{:.0f}", std::pow(10, exponent - whole), whole);
}

// The ticks of a logarithmic axis from 10^low to 10^high, as exponents.
std::vector<double> decade_ticks(double low, double high) {
  std::vector<double> out;
  if (high - low < 1.5) {
    for (const double value : round_ticks(std::pow(10, low), std::pow(10, high), 4))
      if (value > 0) out.push_back(std::log10(value));
    return out;
  }
  const double step = std::max(1.0, std::ceil((high - low) / 6));
  for (double e = std::ceil(low); e <= high + 1e-9; e += step) out.push_back(e);
  return out;
}

// The last values stand beside the curves; moved apart where they would overlap.
std::string last_values(std::vector<std::pair<double, const Curve*>> ends, bool logarithmic) {
  std::ranges::sort(ends, {}, [](const auto& e) { return e.first; });
  for (std::size_t i = 1; i < ends.size(); ++i)
    ends[i].first = std::max(ends[i].first, ends[i - 1].first + 12);
  double most = kBottom - 4;  // above the numbers of the x axis
  for (auto end = ends.rbegin(); end != ends.rend(); ++end, most -= 12)
    end->first = std::min(end->first, most);
  std::string out;
  for (const auto& [y, curve] : ends) {
    const double v = curve->points.back().second;
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\" style=\"fill:{}\"/>",
                       kRight + 4, y, curve_colour(curve->colour));
    out += label(kRight + 8, y + 4, "n", logarithmic ? power_text(v) : short_number(v));
  }
  return out;
}

std::string legend(const std::vector<Curve>& curves) {
  std::string out;
  for (const Curve& c : curves)
    if (!c.faint && !c.points.empty() && !c.name.empty())
      out += fmt::format("<span>{} {}</span> &ensp;",
                         colour_mark(c.colour, c.dots                     ? "●"
                                               : c.colour < kCurveColours ? "—"
                                                                          : "┄"),
                         html_escape(c.name));
  return out.empty() ? "" : "<figcaption>" + out + "</figcaption>";
}

// On the line through the points around x; just outside of them the nearest; else NaN.
double value_at(const Points& points, double x) {
  const auto after = std::ranges::lower_bound(points, x, {}, &Points::value_type::first);
  if (after != points.begin() && after != points.end()) {
    const auto [x0, y0] = *(after - 1);
    const auto [x1, y1] = *after;
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
  }
  const auto& end = after == points.end() ? points.back() : points.front();
  const double step =
      (points.back().first - points.front().first) / static_cast<double>(points.size());
  return std::abs(x - end.first) <= step ? end.second : NAN;
}

// Numbers that differ by a rounding alone are one: no axis reaches from one to the other.
bool apart(double low, double high) {
  return high - low > 1e-9 * std::max(std::abs(low), std::abs(high));
}

// The axis of rows over time. The last number ends where the rows do.
std::string times(double end, double y, const std::string& unit) {
  const double right = kWidth - 8;
  std::string out;
  for (const double t : round_ticks(0, end, 5)) {
    const double x = kLeft + t / end * (right - kLeft);
    out += label(x, y, x > right - 12 ? "r" : "m", short_number(t) + " " + unit);
  }
  return out;
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int wanted) {
  const double rough = (high - low) / std::max(1, wanted);
  if (!apart(low, high) || !std::isfinite(rough)) return {};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0})
    if (step < rough * 0.999) step = factor * power;
  std::vector<double> out;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    out.push_back(i * step);
  return out;
}

Points mean_of(const std::vector<Points>& curves) {
  if (curves.size() == 1) return curves[0];
  constexpr int kPieces = 120;
  double low = INFINITY, high = -INFINITY;
  std::vector<Points> all = curves;
  for (Points& c : all) {
    std::erase_if(c, [](const auto& p) { return !std::isfinite(p.first + p.second); });
    std::ranges::stable_sort(c, {}, &Points::value_type::first);
    if (c.empty()) continue;
    low = std::min(low, c.front().first), high = std::max(high, c.back().first);
  }
  struct Sum {
    double x = 0, y = 0, count = 0;
  };
  std::vector<std::vector<Sum>> pieces(kPieces, std::vector<Sum>(all.size()));
  for (std::size_t k = 0; k < all.size(); ++k)
    for (const auto& [x, y] : all[k]) {
      const double at = high > low ? (x - low) / (high - low) * kPieces : 0;
      Sum& sum = pieces[std::min<std::size_t>(kPieces - 1, static_cast<std::size_t>(at))][k];
      sum.x += x, sum.y += y, sum.count += 1;
    }
  Points out;
  for (const std::vector<Sum>& piece : pieces) {
    Sum of_all, mean;
    for (const Sum& own : piece) of_all.x += own.x, of_all.count += own.count;
    if (of_all.count == 0) continue;
    const double x = of_all.x / of_all.count;
    for (std::size_t k = 0; k < all.size(); ++k) {
      const double y = piece[k].count > 0 ? piece[k].y / piece[k].count
                       : all[k].empty()   ? NAN
                                          : value_at(all[k], x);
      if (std::isfinite(y)) mean.y += y, mean.count += 1;
    }
    out.emplace_back(x, mean.y / mean.count);
  }
  return out;
}

TimeUnit time_unit(double longest_s) {
  return longest_s < 120 ? TimeUnit{"seconds", 1} : TimeUnit{"minutes", 60};
}

namespace {

constexpr double kChartHeight = 222;

// The picture of a chart, without its legend; curves lose what can't be drawn.
std::string chart_svg(const ChartText& text, std::vector<Curve>& curves) {
  double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
  for (Curve& c : curves) {
    std::erase_if(c.points, [&](const auto& p) {
      return !std::isfinite(p.first) || !std::isfinite(p.second) ||
             (text.logarithmic && p.second <= 0) || (text.logarithmic_x && p.first <= 0);
    });
    c.points = thin(c.points, 300);
    c.dots |= c.points.size() == 1 && !c.faint;  // a line of one point can't be seen
    for (auto& [x, y] : c.points) {
      if (text.logarithmic) y = std::log10(y);
      if (text.logarithmic_x) x = std::log10(x);
      x0 = std::min(x0, x), x1 = std::max(x1, x), y0 = std::min(y0, y), y1 = std::max(y1, y);
    }
  }
  if (!apart(x0, x1)) return "";
  // A flat curve is drawn flat: its noise does not fill the picture.
  const double least = text.logarithmic ? 0.3 : 0.1 * std::max(std::abs(y0), std::abs(y1));
  if (const double more = (least > 0 ? least : 1) - (y1 - y0); more > 0)
    y0 -= least > 0 ? more / 2 : 0, y1 += least > 0 ? more / 2 : more;
  if (!text.logarithmic && y0 > 0 && y0 < 0.4 * y1) y0 = 0;
  const auto px = [&](double x) { return kLeft + (x - x0) / (x1 - x0) * (kRight - kLeft); };
  const auto py = [&](double y) { return kBottom - (y - y0) / (y1 - y0) * (kBottom - kTop); };
  std::string svg = head(text.title, kChartHeight);
  for (const double y : text.logarithmic ? decade_ticks(y0, y1) : round_ticks(y0, y1, 4)) {
    svg += fmt::format(
        "<line x1=\"{0:.0f}\" x2=\"{1:.0f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" class=\"g\"/>", kLeft,
        kRight, py(y));
    svg += label(kLeft - 5, py(y) + 4, "r", text.logarithmic ? power_text(y) : short_number(y));
  }
  for (const double x : text.logarithmic_x ? decade_ticks(x0, x1) : round_ticks(x0, x1, 5))
    svg += label(px(x), kBottom + 16, "m", text.logarithmic_x ? power_text(x) : short_number(x));
  svg += label((kLeft + kRight) / 2, kBottom + 30, "m", text.x_label);
  std::vector<std::pair<double, const Curve*>> ends;
  for (const Curve& c : curves) {
    if (c.points.empty()) continue;
    if (c.dots) {
      for (const auto& [x, y] : c.points)
        svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" style=\"fill:{}\"/>",
                           px(x), py(y), curve_colour(c.colour));
    } else {
      svg +=
          fmt::format("<polyline fill=\"none\" style=\"stroke:{}\" stroke-width=\"{}\"{} points=\"",
                      curve_colour(c.colour), c.faint ? .6 : 1.8,
                      c.colour < kCurveColours ? "" : " stroke-dasharray=\"6 3\"");
      for (const auto& [x, y] : c.points) svg += fmt::format("{:.1f},{:.1f} ", px(x), py(y));
      svg += "\"><title>" + html_escape(c.name) + "</title></polyline>";
    }
    if (!c.faint) ends.emplace_back(py(c.points.back().second), &c);
  }
  svg += last_values(std::move(ends), text.logarithmic);
  return svg + "</svg>";
}

}  // namespace

std::string chart(const ChartText& text, std::vector<Curve> curves) {
  const std::string svg = chart_svg(text, curves);
  return svg.empty() ? "" : "<figure>" + svg + legend(curves) + "</figure>";
}

std::string chart_file(const std::vector<std::pair<ChartText, std::vector<Curve>>>& charts) {
  constexpr double kLine = 15;
  std::string out;
  double y = 0;
  for (const auto& [text, given] : charts) {
    std::vector<Curve> curves = given;
    std::string svg = chart_svg(text, curves);
    if (svg.empty()) continue;
    const std::string begin = "<svg ";
    out += svg.replace(0, begin.size(),
                       fmt::format("<svg y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" ", y,
                                   kWidth, kChartHeight));
    y += kChartHeight;
    for (const Curve& c : curves)
      if (!c.faint && !c.points.empty() && !c.name.empty()) {
        y += kLine;
        out += label(kLeft, y - 4, "", c.dots ? "●" : "—",
                     fmt::format(" style=\"fill:{}\"", curve_colour(c.colour)));
        out += label(kLeft + 16, y - 4, "n", c.name);
      }
    y += kLine;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
             "width=\"{2:.0f}\" font-family=\"system-ui,sans-serif\">",
             kWidth, y, 2 * kWidth) +
         html_style() + "<rect width=\"100%\" height=\"100%\" style=\"fill:var(--paper)\"/>" + out +
         "</svg>\n";
}

std::string graph_picture(int workers, const std::vector<DrawnEdge>& edges,
                          const std::set<int>& gone) {
  constexpr int kMostWorkers = 128;  // with more, the dots run together
  if (edges.empty() || workers < 2 || workers > kMostWorkers) return "";
  const double cx = kWidth / 2, cy = 150, radius = 105;
  const auto at = [&](int worker, double r) {
    const double angle = 2 * std::numbers::pi * worker / workers - std::numbers::pi / 2;
    return std::pair(cx + r * std::cos(angle), cy + r * std::sin(angle));
  };
  double most = 0;
  for (const DrawnEdge& e : edges) most = std::max(most, e.rate);
  std::string svg;
  double lowest = 0;
  for (const DrawnEdge& e : edges) {
    const auto [x1, y1] = at(e.a, radius);
    const auto [x2, y2] = at(e.b, radius);
    const bool poor = e.requested > 0 && e.rate < dist::kEnoughOfRate * e.requested;
    svg += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" style=\"stroke:{}\" "
        "stroke-width=\"{:.2f}\"{}><title>{}</title></line>",
        x1, y1, x2, y2, curve_colour(poor ? 1 : 0), most > 0 ? 0.5 + 4 * e.rate / most : 0.5,
        e.rate > 0 ? "" : " stroke-dasharray=\"3 4\"", html_escape(e.text));
    if (edges.size() <= 16) {  // beside the line
      const double length = std::max(1.0, std::hypot(x2 - x1, y2 - y1));
      const double side = (13 + 6 * std::abs(y2 - y1) / length) / length;  // a number is wide
      const double y = (y1 + y2) / 2 + side * (x2 - x1) + 4;
      svg += label((x1 + x2) / 2 + side * (y1 - y2), y, "m over", fmt::format("{:.2f}", e.rate));
      lowest = std::max(lowest, y);
    }
  }
  for (int w = 0; w < workers; ++w) {
    const auto [x, y] = at(w, radius);
    const auto [tx, ty] = at(w, radius + 14);
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" class=\"{}\"/>", x, y,
                       workers <= 32 ? 4 : 2, gone.contains(w) ? "gone" : "n");
    if (workers <= 48)
      svg += label(tx, ty + 4, "m", std::to_string(w) + (gone.contains(w) ? " gone" : ""));
    lowest = std::max(lowest, ty + 4);
  }
  const bool asked = std::ranges::any_of(edges, [](const auto& e) { return e.requested > 0; });
  return "<figure>" + head("exchanges per gradient on each edge", lowest + 5) + svg +
         "</svg><figcaption>thicker: more" +
         (asked ? fmt::format("; {}: less than {} of the requested rate", colour_mark(1, "—"),
                              dist::kEnoughOfRate)
                : "") +
         "</figcaption></figure>";
}

std::string bars_picture(const std::string& title, const std::vector<std::string>& names,
                         const std::vector<std::vector<double>>& rows) {
  constexpr std::size_t kMostRows = 64;
  const double right = kWidth - 8, thick = rows.size() > 24 ? 5 : 12, step = thick + 3;
  std::string svg;
  double y = kTop;
  for (std::size_t i = 0; i < std::min(rows.size(), kMostRows); ++i, y += step) {
    double x = kLeft;
    if (thick > 10 || i % 8 == 0) svg += label(kLeft - 6, y + thick - 2, "r", std::to_string(i));
    for (std::size_t k = 0; k < rows[i].size(); ++k) {
      const double wide = rows[i][k] * (right - kLeft);
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" "
          "style=\"fill:{}\"><title>{}: {:.1f} %</title></rect>",
          x, y, wide, thick, curve_colour(static_cast<int>(k)), html_escape(names[k]),
          100 * rows[i][k]);
      x += wide;
    }
  }
  for (const int percent : {0, 25, 50, 75, 100})
    svg += label(kLeft + percent * (right - kLeft) / 100, y + 14, percent == 100 ? "r" : "m",
                 fmt::format("{} %", percent));
  std::string key;
  for (std::size_t k = 0; k < names.size(); ++k)
    key += fmt::format("<span>{} {}</span> &ensp;", colour_mark(static_cast<int>(k), "■"),
                       html_escape(names[k]));
  return "<figure>" + head(title, y + 20) + svg + "</svg><figcaption>" + key +
         "</figcaption></figure>";
}

void PictureOfRows::row(const std::string& name) {
  y_ += 15;
  svg_ += label(kLeft - 6, y_ + 4, "r", name);
}

void PictureOfRows::span(double from, double to, double dark, const std::string& text) {
  const double right = kWidth - 8;
  const auto px = [&](double t) { return kLeft + t / end_ * (right - kLeft); };
  svg_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"11\" opacity=\"{:.2f}\" "
      "style=\"fill:var(--c0)\"><title>{}</title></rect>",
      px(from), y_ - 6, px(to) - px(from), dark, html_escape(text));
}

std::string PictureOfRows::figure(const std::string& caption) const {
  return "<figure>" + head(title_, y_ + 30) + svg_ + times(end_, y_ + 22, unit_) +
         "</svg><figcaption>" + html_escape(caption) + "</figcaption></figure>";
}

std::string timeline(const RunRecord& run) {
  if (run.alive.empty() || !(run.seconds > 0)) return "";
  std::map<int, double> rows;  // worker -> y
  for (const auto& [worker, spans] : run.alive) rows[worker];
  for (const Mark& m : run.marks) rows[m.worker];
  double y = 14;
  for (auto& [worker, at] : rows) at = y += 15;
  const double right = kWidth - 8;
  const auto px = [&](double t) { return kLeft + t / run.seconds * (right - kLeft); };
  std::string svg = head("workers over time", y + 30);
  for (const auto& [worker, at] : rows) {
    svg += label(kLeft - 6, at + 4, "r", std::to_string(worker));
    const auto found = run.alive.find(worker);
    if (found == run.alive.end()) continue;
    for (const auto& [from, to] : found->second)
      svg += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" "
          "style=\"stroke:var(--c0)\" stroke-width=\"5\"/>",
          px(from), std::max(px(to), px(from) + 1), at);
  }
  for (const Mark& m : run.marks) {
    const int colour = m.kind == "joined"    ? 2
                       : m.kind == "inject"  ? 4
                       : m.kind == "refused" ? 5
                                             : 1;
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" style=\"fill:{}\"><title>{}</title>"
        "</circle>",
        px(m.time), rows[m.worker], curve_colour(colour),
        html_escape(fmt::format("{:.1f} s: {} {}", m.time, m.kind, m.what)));
  }
  return "<figure>" + svg + times(run.seconds, y + 22, "s") +
         fmt::format(
             "</svg><figcaption>a line while it was alive; <span>{} lost</span>, <span>{} "
             "back</span>, <span>{} injected</span>, <span>{} refused</span></figcaption></figure>",
             colour_mark(1, "●"), colour_mark(2, "●"), colour_mark(4, "●"), colour_mark(5, "●"));
}

}  // namespace gossamer::apps
