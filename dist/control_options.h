// Consensus control as a user sees it: what is asked for, and what it took. How it works:
// rounds/consensus_controller.h.
// Threads: one at a time for a ControlTally.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/setting.h"

namespace gossamer::dist {

struct ConsensusControlOptions {
  std::string method = "dpsgd";
  std::string target = "plateau";
  std::vector<double> phases{};
  std::vector<double> fractions{0.25};
  double measure = 0.02;
  double factor = 1;
  i64 most = 100;

  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    const bool online = self.target == "online";
    const std::string plateau_only = "target plateau", online_only = "target online";
    f(self.method, Setting{.name = "control.method",
                           .about = "consensus-control: the synchronous method under control"});
    f(self.target,
      Setting{.name = "control.target",
              .about = "plateau: fractions of the distance measured without control; online: "
                       "factor * learning rate * gradient norm",
              .choices = {"plateau", "online"}});
    f(self.phases, Setting{.name = "control.phases",
                           .about = "plateau: fractions of the run at which the next phase "
                                    "begins",
                           .range = Range::between(0, 1).said(
                               "ascending fractions of the run, above 0 and below 1"),
                           .ascending = true,
                           .used = !online,
                           .used_with = plateau_only,
                           .of_run = true});
    // 1 or more: no control
    f(self.fractions, Setting{.name = "control.fractions",
                              .about = "plateau: target of each phase, one more than "
                                       "{control.phases}; 0: exact averages; 1: no control",
                              .range = Range::at_least(0).said(
                                  "one number of 0 or more for each phase, so one more than "
                                  "{control.phases}"),
                              .entries = self.phases.size() + 1,
                              .used = !online,
                              .used_with = plateau_only});
    // a warm-up before it is left alone, too
    f(self.measure, Setting{.name = "control.measure",
                            .about = "plateau: fraction of the run in which a phase measures the "
                                     "distance, at its start or when the learning rate rises no "
                                     "more",
                            .range = Range::between(0, 1),
                            .used = !online,
                            .used_with = plateau_only});
    f(self.factor, Setting{.name = "control.factor",
                           .about = "online: the factor above",
                           .range = Range::above_zero(),
                           .used = online,
                           .used_with = online_only});
    f(self.most, Setting{.name = "control.most",
                         .about = "most rounds of gossip after a step; if more are needed, an "
                                  "exact average instead",
                         .range = Range::from_to(0, 100000),
                         .unit = "rounds"});
  }
};

// What control has done so far, and what that took.
struct ControlTally {
  i64 steps = 0;  // local steps after which there was a target
  // of those: Xi was within 20 % of it in the end; after a lazy round it is the target, by
  // computation
  i64 near = 0;
  double ratio_sum = 0;        // of Xi / target over those steps, after control
  double least = 0, most = 0;  // Xi / target
  // rounds (a lazy one is one) and all-reduces beyond the method's own
  i64 gossip = 0, exact_averages = 0;
  i64 measurements = 0;  // all-reduces of 8 KB
  double ratio() const { return steps > 0 ? ratio_sum / static_cast<double>(steps) : 0; }
  void count(double distance, double target);
  ControlTally& operator+=(const ControlTally&);
};

}  // namespace gossamer::dist
