// The settings of consensus control. How it works: rounds/consensus_controller.h. What it took:
// ControlTally in method.h.
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

}  // namespace gossamer::dist
