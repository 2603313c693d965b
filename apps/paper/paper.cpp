// The list of the pages, and how their numbers are judged.
#include "gossamer/apps/paper/paper.h"

namespace gossamer::apps {

Compared near(double distance, std::string what, double published, double ours) {
  return {std::move(what), published, ours, published - distance, published + distance};
}
Compared within(double part, std::string what, double published, double ours) {
  return near(part * std::abs(published), std::move(what), published, ours);
}
Compared expected_near(double distance, std::string what, double expected, double ours) {
  return {std::move(what), NAN, ours, expected - distance, expected + distance, expected};
}
Compared expected_within(double part, std::string what, double expected, double ours) {
  return expected_near(part * std::abs(expected), std::move(what), expected, ours);
}
Compared shown(std::string what, double published, double ours) {
  return {std::move(what), published, ours, NAN, NAN};
}

const std::vector<Paper>& papers() {
  static const std::vector<Paper> all{
      {"slides-table1", "A2CiD2: exchanges until agreement on star, ring and complete graph",
       slides_table, false},
      {"ring64", "A2CiD2: a ring of 64 agrees with and without acceleration", ring_page, false},
      {"published-order", "A2CiD2: what the published code's order of events costs",
       published_order, false},
      {"cifar-minutes", "A2CiD2: minutes of CIFAR-10 with 4 to 64 workers, against all-reduce",
       cifar_minutes, false},
      {"imagenet-idle", "A2CiD2: gradients of the fastest and slowest worker; all-reduce waits",
       imagenet_idle, false},
      {"aer-iteration", "Decent-DP: milliseconds of an iteration on three clusters", aer_iteration,
       false},
      {"straggler", "one worker three times slower: efficiency by method and number of workers",
       straggler_page, false},
      {"control-phases", "Consensus Control: distances by phase; with --images real training",
       control_phases, true},
      {"accum-adam", "Decent-DP: accumulated Adam against two others, by real training",
       accumulated_adam, true},
      {"cifar-accuracy", "A2CiD2: accuracy on CIFAR-10 by method and graph, by real runs",
       cifar_accuracy, false, true},
  };
  return all;
}

}  // namespace gossamer::apps
