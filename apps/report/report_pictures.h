// The pictures of report.html, as SVG without scripts. All texts are escaped here.
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
  bool dots = false;  // single measurements, not joined
};
// Empty if there are less than two points. At most 300 points a curve are drawn, means of equal
// pieces.
std::string chart(const std::string& title, const std::string& x_label, std::vector<Curve>,
                  bool logarithmic);

struct DrawnEdge {
  int a = 0, b = 0;
  double rate = 0, wanted = 0;
  std::string text;  // shown when pointed at
};
// Workers on a circle; lines as thick as their rates, red where less than two thirds of what was
// wanted happened.
std::string graph_picture(int workers, const std::vector<DrawnEdge>&);

struct Mark {
  double time = 0;         // seconds since the start
  int worker = 0;          // on whose line
  std::string kind, text;  // kind: fault | joined | refused | inject
};
// One line for each worker, drawn where it wrote to the log, with marks.
std::string timeline(const std::map<int, std::vector<double>>& activity, const std::vector<Mark>&);

}  // namespace gossamer::apps
