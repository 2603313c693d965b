// trace.json: the traces of all workers of a run on one time line, with arrows between them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/dist/clock_offset.h"

namespace gossamer::apps {

// What a worker writes into the header of its own trace, so that its times can be compared with
// those of others.
struct TraceClock {
  int rank = 0;
  // workers with equal text share one monotonic clock
  std::string machine;
  double epoch_us = 0;              // trace::epoch_us()
  double begin_us = 0, end_us = 0;  // when recording began and ended
  // how far the clock of worker 0 was ahead then; none: not known, or this is worker 0
  std::optional<dist::ClockEstimate> begin{}, end{};
};
// of the kernel that runs this process, since its last boot
std::string machine_id();
std::string to_json(const TraceClock&);

struct MergedTrace {
  std::vector<int> ranks;  // whose traces were found, ascending
  i64 events = 0, arrows = 0;
  // arrows that end before they begin: clocks of machines that could not be aligned better
  i64 backwards = 0;
  // largest error of the alignment; 0 on one machine
  double error_us = 0;
};

// Joins trace-RANK.json of `folder` into trace.json there and removes the parts (unless
// keep_parts). Times become those of the lowest rank found; slices keep their nesting, and arrows
// of which one end is missing (a full ring, a dead worker) are left out. A file that is cut short
// gives what it holds. IoError: there is none, or trace.json cannot be written.
MergedTrace merge_traces(const std::filesystem::path& folder, bool keep_parts = false);

}  // namespace gossamer::apps
