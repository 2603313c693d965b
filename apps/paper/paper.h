// `gossamer paper NAME`: tables and figures of the papers, computed anew, ours beside what was
// published. Each is a function that returns a page; commands/paper.cpp prints it.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gossamer/apps/report/pictures.h"

namespace gossamer::apps {

// A number of the paper and ours. Where no paper has it, it may be `expected`: by our theory, or as
// an earlier run of ours had it. NaN: there is none. Ours holds from low to high; NaN: it is only
// shown.
struct Compared {
  std::string what;
  double published = NAN, ours = NAN, low = NAN, high = NAN, expected = NAN;
  bool judged() const { return std::isfinite(low); }
  bool holds() const { return ours >= low && ours <= high; }
};
// ours must be within `part` of the published value
Compared within(double part, std::string what, double published, double ours);
// ours must be within `distance` of it
Compared near(double distance, std::string what, double published, double ours);
// the same for what is expected
Compared expected_within(double part, std::string what, double expected, double ours);
Compared expected_near(double distance, std::string what, double expected, double ours);
Compared shown(std::string what, double published, double ours);

struct PaperChart {
  ChartText text;
  std::vector<Curve> curves{};
};

struct PaperPage {
  std::string title, source;             // source: paper, table or figure
  std::vector<std::string> assumptions;  // also: what was fitted to what
  std::vector<Compared> rows{};
  std::vector<PaperChart> charts{};
  std::vector<std::string> notes{};  // what did not come out, and why; what follows
};

// A run of `gossamer train`: its keys beside those of the command.
struct PlannedRun {
  std::string name;
  std::vector<std::string> keys;
};
// What it came to: as in its summary.json.
struct PaperRun {
  double top1 = 0, seconds = 0, exchanges = 0, distance = 0;  // exchanges: per gradient
};

// What real training needs; the simulated pages take none of it.
struct PaperOptions {
  std::string data;   // pictures with train/ and val/; empty: drawn ones
  int seeds = 0;      // 0: as many as the page says
  double images = 0;  // of a run, of all its workers; 0: no training (control-phases), or what the
                      // page says
  std::function<void(const std::string&)> trained{};  // told of each run that has ended
  // of pages that start `gossamer train`:
  int workers = 16;
  // makes those that are not there yet
  std::function<std::vector<PaperRun>(const std::vector<PlannedRun>&)> runs{};
};

struct Paper {
  const char *name, *about;
  PaperPage (*page)(const PaperOptions&);
  // Takes the first four of PaperOptions; the others.
  bool trains, launches = false;
};
const std::vector<Paper>& papers();

// --- the pages, by file
PaperPage slides_table(const PaperOptions&), ring_page(const PaperOptions&),
    published_order(const PaperOptions&);  // agreement.cpp
PaperPage cifar_minutes(const PaperOptions&), imagenet_idle(const PaperOptions&),
    straggler_page(const PaperOptions&);          // runtimes.cpp
PaperPage aer_iteration(const PaperOptions&);     // iterations.cpp
PaperPage control_phases(const PaperOptions&);    // control.cpp
PaperPage accumulated_adam(const PaperOptions&);  // adam.cpp
PaperPage cifar_accuracy(const PaperOptions&);    // accuracy.cpp

}  // namespace gossamer::apps
