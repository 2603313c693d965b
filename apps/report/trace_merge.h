// trace.json: the traces of all workers of a run on one time line, with arrows between them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/dist/transport.h"

namespace gossamer::apps {

// The header of a worker's trace, with which its times can be compared with those of others.
struct TraceClock {
  int rank = 0;
  // workers with the same text share one monotonic clock
  std::string machine;
  double epoch_us = 0;              // trace::epoch_us()
  double begin_us = 0, end_us = 0;  // when recording began and ended
  // how far worker 0's clock was ahead at those times; none: unknown, or this is worker 0
  std::optional<dist::ClockEstimate> begin{}, end{};
};
// Identifies the running kernel since its last boot.
std::string machine_id();
std::string to_json(const TraceClock&);

struct MergedTrace {
  std::vector<int> ranks;  // of the traces that were found, ascending
  i64 events = 0, arrows = 0;
  // arrows that end before they begin, because the clocks could not be aligned better
  i64 backwards = 0;
  // largest error of the alignment; 0 on one machine
  double error_us = 0;
};

// Joins the trace-RANK.json files of `folder` into trace.json and removes them (unless keep_parts).
// Times are those of the lowest rank; slices stay nested; arrows without a second end (a full ring,
// a dead worker) are left out. Of a file that is cut short, the complete part is used. IoError:
// there is no part (also if trace.json is there already), or trace.json cannot be written.
MergedTrace merge_traces(const std::filesystem::path& folder, bool keep_parts = false);

}  // namespace gossamer::apps
