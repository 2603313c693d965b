// A run as it is now: the last minute of what its log says.
#pragma once

#include <map>
#include <set>
#include <utility>

#include "gossamer/apps/report/run_record.h"

namespace gossamer::apps {

inline constexpr double kRecentSeconds = 60;

struct Recent {
  double seconds = 0;             // how much there is of it
  std::set<int> alive{}, gone{};  // ranks
  double images_per_s = 0;        // of all workers; 0: not known
  // Of each pair (the lower rank first) that has met: exchanges per gradient of one worker.
  std::map<std::pair<int, int>, double> rates{};
};
Recent recent(const RunRecord&);

}  // namespace gossamer::apps
