// The list of the pages, and how their numbers are judged.
#include "gossamer/apps/paper/paper.h"

namespace gossamer::apps {

Compared near(double distance, std::string what, double published, double ours) {
  return {std::move(what), published, ours, published - distance, published + distance};
}
Compared within(double part, std::string what, double published, double ours) {
  return near(part * std::abs(published), std::move(what), published, ours);
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
  };
  return all;
}

}  // namespace gossamer::apps
