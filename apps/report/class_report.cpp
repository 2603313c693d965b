// See class_report.h.
#include "gossamer/apps/report/class_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "gossamer/apps/report/html.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"

namespace gossamer::apps {
namespace {

constexpr std::size_t kListed = 20, kMostDrawn = 50;
constexpr i64 kMostImages = i64{1} << 40;

std::string bar(double share, int colour) {
  if (!std::isfinite(share)) return "<span class=\"soft\">none</span>";
  return fmt::format(
      "<div class=\"bar\"><i style=\"width:{:.1f}%;background:{}\"></i><span>{:.1f} "
      "%</span></div>",
      100 * share, curve_colour(colour), 100 * share);
}

std::string bars(const ClassReport& report, const std::vector<ClassResult>& results,
                 const std::vector<std::size_t>& order, std::size_t begin, std::size_t end) {
  HtmlTable table({"class", "recall", "precision", "images"});
  for (std::size_t i = begin; i < end; ++i) {
    const ClassResult& r = results[order[i]];
    table.row({html_escape(report.classes[order[i]]), bar(r.recall(), 0), bar(r.precision(), 2),
               std::to_string(r.images)});
  }
  return "<div class=\"bars\">" + table.html() + "</div>";
}

std::string classes_part(const ClassReport& report) {
  const auto results = class_results(report.pairs, report.classes.size());
  const auto order = worst_first(results);
  double recall = 0;
  i64 images = 0;
  for (const std::size_t k : order) recall += results[k].recall(), images += results[k].images;
  std::string out = fmt::format(
      "<h2>Classes</h2><p>{} images of {} classes. Recall: how many of a class were found, on "
      "average over the classes {:.2f} %. Precision: how many of those taken for it were "
      "right.</p>",
      images, order.size(),
      100 * recall / static_cast<double>(std::max<std::size_t>(1, order.size())));
  const std::size_t shown = std::min(kListed, order.size());
  out += bars(report, results, order, 0, shown);
  if (order.size() > shown)
    out += fmt::format("<details><summary>{} classes with a higher recall</summary>{}</details>",
                       order.size() - shown, bars(report, results, order, shown, order.size()));
  return out;
}

// At most 14 characters; bytes that continue a character of UTF-8 stay with it.
std::string short_name(const std::string& name) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < name.size(); ++i)
    if ((static_cast<unsigned char>(name[i]) & 0xC0) != 0x80 && ++characters == 15)
      return html_escape(name.substr(0, i)) + "…";
  return html_escape(name);
}

// Drawn in its own size, so that its text stays readable; a narrow page scrolls it.
std::string matrix(const ClassReport& report) {
  const std::size_t n = report.classes.size();
  if (n < 2 || n > kMostDrawn) return "";
  std::size_t longest = 3;
  for (const std::string& name : report.classes)
    longest = std::max(longest, std::min<std::size_t>(15, name.size()));
  const double margin = 12 + 6.6 * static_cast<double>(longest), cell = n <= 10   ? 26
                                                                        : n <= 25 ? 20
                                                                                  : 14;
  const double side = cell * static_cast<double>(n);
  const auto at = [&](int k) { return margin + cell * k; };
  std::string svg = fmt::format(
      "<svg style=\"width:{0:.0f}px\" viewBox=\"0 0 {0:.0f} {0:.0f}\" role=\"img\" "
      "aria-label=\"confusion matrix\"><rect x=\"{1:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" "
      "height=\"{2:.1f}\" class=\"box\"/>",
      margin + side + 1, margin, side);
  for (std::size_t k = 0; k < n; ++k) {
    const double middle = at(static_cast<int>(k)) + cell / 2 + 4;
    const std::string name = short_name(report.classes[k]);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"a r\">{}</text>", margin - 5,
                       middle, name);
    svg += fmt::format(
        "<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" class=\"a\">{}</text>", middle,
        margin - 5, name);
  }
  const auto results = class_results(report.pairs, n);
  for (const ClassPair& p : report.pairs) {
    const double share = static_cast<double>(p.images) /
                         static_cast<double>(results[static_cast<std::size_t>(p.label)].images);
    const std::string text = fmt::format("{} of {} {} taken for {}", p.images,
                                         results[static_cast<std::size_t>(p.label)].images,
                                         report.classes[static_cast<std::size_t>(p.label)],
                                         report.classes[static_cast<std::size_t>(p.predicted)]);
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "style=\"fill:{}\" fill-opacity=\"{:.2f}\"><title>{}</title></rect>",
        at(p.predicted), at(p.label), cell - 1, cell - 1,
        curve_colour(p.label == p.predicted ? 0 : 1), 0.12 + 0.48 * share, html_escape(text));
    if (n <= 10 && p.images < 1000)
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"a m n\">{}</text>",
                         at(p.predicted) + cell / 2, at(p.label) + cell / 2 + 4, p.images);
  }
  return "<div><div class=\"wide\">" + svg +
         "</svg></div><p class=\"soft\">A row for each class, a column for what it was taken "
         "for.</p></div>";
}

std::string confusions_part(const ClassReport& report) {
  const auto wrong = confusions(report.pairs);
  const auto results = class_results(report.pairs, report.classes.size());
  HtmlTable table({"class", "taken for", "images"});
  for (std::size_t i = 0; i < wrong.size() && i < kListed; ++i)
    table.row({html_escape(report.classes[static_cast<std::size_t>(wrong[i].label)]),
               html_escape(report.classes[static_cast<std::size_t>(wrong[i].predicted)]),
               fmt::format("{} of {}", wrong[i].images,
                           results[static_cast<std::size_t>(wrong[i].label)].images)});
  if (wrong.empty()) return "<h2>Confusions</h2><p>There are none.</p>";
  std::string rest;
  if (wrong.size() > kListed)
    rest = fmt::format("<p class=\"soft\">and {} rarer pairs</p>", wrong.size() - kListed);
  return "<h2>Confusions</h2><div class=\"beside\">" + matrix(report) + "<div>" + table.html() +
         rest + "</div></div>";
}

std::string mistakes_part(const ClassReport& report) {
  if (report.mistakes.empty()) return "";
  std::string out;
  for (const Mistake& m : report.mistakes) {
    const std::string name = html_escape(m.name);
    out += "<figure>";
    if (!m.picture.empty())
      out += fmt::format("<img src=\"{}\" alt=\"{}\">", html_escape(m.picture), name);
    out += fmt::format(
        "<figcaption><b>{}</b><br>taken for <b class=\"bad\">{}</b>, "
        "{:.1f}&nbsp;%<br>{}</figcaption>"
        "</figure>",
        html_escape(report.classes[static_cast<std::size_t>(m.label)]),
        html_escape(report.classes[static_cast<std::size_t>(m.predicted)]), 100 * m.probability,
        name);
  }
  return "<h2>Most confident mistakes</h2><div class=\"shots\">" + out + "</div>";
}

// What a page may show: a JPEG that is in the text itself.
bool is_picture(const std::string& address) {
  const std::string begin = "data:image/jpeg;base64,";
  return address.starts_with(begin) &&
         address.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
             "+/=",
             begin.size()) == std::string::npos;
}

}  // namespace

std::string class_report_json(const ClassReport& report) {
  std::vector<std::vector<i64>> pairs;
  for (const ClassPair& p : report.pairs) pairs.push_back({p.label, p.predicted, p.images});
  std::vector<JsonObject> mistakes;
  for (const Mistake& m : report.mistakes)
    mistakes.push_back(JsonObject()
                           .add("name", m.name)
                           .add("label", m.label)
                           .add("predicted", m.predicted)
                           .add("probability", m.probability)
                           .add("picture", m.picture));
  return JsonObject()
             .add("classes", report.classes)
             .add("label_predicted_images", pairs)
             .add("mistakes", mistakes)
             .str() +
         "\n";
}

ClassReport parse_class_report(const std::string& text) {
  using Json = nlohmann::json;
  const Json all = parse_json<Json>(text);
  ClassReport out;
  try {
    out.classes = all.at("classes").get<std::vector<std::string>>();
    const auto known = [&](const Json& k) {
      const int label = k.get<int>();
      check<IoError>(label >= 0 && label < static_cast<int>(out.classes.size()), "no such class");
      return label;
    };
    for (const Json& p : all.at("label_predicted_images")) {
      out.pairs.push_back({known(p.at(0)), known(p.at(1)), p.at(2).get<i64>()});
      const i64 images = out.pairs.back().images;
      check<IoError>(images > 0 && images < kMostImages, "impossible");
    }
    for (const Json& m : all.at("mistakes")) {
      out.mistakes.push_back({m.at("name"), known(m.at("label")), known(m.at("predicted")),
                              m.at("probability"), m.at("picture")});
      if (!is_picture(out.mistakes.back().picture)) out.mistakes.back().picture.clear();
    }
  } catch (const std::exception&) {
    return {};
  }
  return out;
}

std::string class_report_html(const ClassReport& report) {
  if (report.classes.empty()) return "";
  return classes_part(report) + confusions_part(report) + mistakes_part(report);
}

}  // namespace gossamer::apps
