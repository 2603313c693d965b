// The pictures of report.html as SVG without scripts. All text is escaped here.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gossamer::apps {

std::string html_escape(const std::string&);

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
  bool dots = false;  // single measurements, not joined by a line
};
// "" if there are fewer than two points. A curve has at most 300 points: means of equal pieces.
std::string chart(const std::string& title, const std::string& x_label, std::vector<Curve>,
                  bool logarithmic);

struct DrawnEdge {
  int a = 0, b = 0;
  double rate = 0, requested = 0;  // exchanges per gradient
  std::string text;                // shown under the mouse pointer
};
// Workers on a circle, joined by lines: the thicker, the higher the rate; red below two thirds of
// the requested rate.
std::string graph_picture(int workers, const std::vector<DrawnEdge>&);

struct Mark {
  double time = 0;         // seconds since the start
  int worker = 0;          // in whose row it is drawn
  std::string kind, text;  // kind: fault | joined | refused | inject
};
// A row for each worker, with a line where it wrote to the log and with its marks. activity: when
// each worker wrote, in seconds since the start.
std::string timeline(const std::map<int, std::vector<double>>& activity, const std::vector<Mark>&);

}  // namespace gossamer::apps
