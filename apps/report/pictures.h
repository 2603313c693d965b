// The pictures of the reports as SVG without scripts, 340 wide, so that their text can be read on
// a telephone. All text is escaped here.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/apps/report/run_record.h"

namespace gossamer::apps {

using Points = std::vector<std::pair<double, double>>;

struct Curve {
  std::string name{};
  Points points{};
  int colour = 0;      // as curve_colour() has it; after those curves are dashed
  bool dots = false;   // single measurements, not joined by a line; so is a curve of one point
  bool faint = false;  // in the background: without its last value and its entry in the legend
};

struct ChartText {
  std::string title, x_label;
  bool logarithmic = false;  // the y axis
  bool logarithmic_x = false;
};

// Values that are 1, 2 or 5 times a power of ten apart, about `wanted` of them, within [low, high].
std::vector<double> round_ticks(double low, double high, int wanted);

// The mean of several curves over each of 120 equal pieces of the x axis in which one of them has a
// point: a curve without one there counts by the line between its points. Not before its first and
// after its last: a worker that has died no longer counts.
Points mean_of(const std::vector<Points>&);

// What an axis of time counts in: seconds below two minutes.
struct TimeUnit {
  const char* name;
  double seconds;
};
TimeUnit time_unit(double longest_s);

// A <figure>; "" if there are fewer than two points. Every curve ends with its last value, and has
// at most 300 points: means of equal pieces.
std::string chart(const ChartText&, std::vector<Curve>);

// The same charts below each other as a file of its own, .svg.
std::string chart_file(const std::vector<std::pair<ChartText, std::vector<Curve>>>&);

struct DrawnEdge {
  int a = 0, b = 0;
  double rate = 0, requested = 0;  // exchanges per gradient
  std::string text;                // shown under the mouse pointer
};
// Workers on a circle, joined by lines: the thicker, the higher the rate; red if
// not enough of the requested rate was achieved. Who is gone is hollow.
std::string graph_picture(int workers, const std::vector<DrawnEdge>&,
                          const std::set<int>& gone = {});

// Rows with spans over time: the darker, the more.
class PictureOfRows {
 public:
  PictureOfRows(std::string title, double end, std::string unit)
      : title_(std::move(title)), unit_(std::move(unit)), end_(end) {}
  void row(const std::string& name);  // spans that follow are of it
  void span(double from, double to, double dark, const std::string& text);  // dark: 0 to 1
  std::string figure(const std::string& caption) const;

 private:
  std::string title_, unit_, svg_;
  double end_, y_ = 14;
};

// A bar for each row, of parts that are fractions of a whole, in the colours of `names`.
std::string bars_picture(const std::string& title, const std::vector<std::string>& names,
                         const std::vector<std::vector<double>>& rows);

// A row for each worker, with a line while it was alive and with its marks.
std::string timeline(const RunRecord&);

}  // namespace gossamer::apps
