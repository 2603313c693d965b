// How long the parts of a run took, by its trace: what a prediction of other runs begins with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gossamer::apps {

// The steps of one worker, in seconds. The first ones, in which memory is found and code chosen, do
// not count.
struct StepTimes {
  int rank = 0;
  int steps = 0;
  double step_s = 0;     // from the beginning of a step to that of the next, mean
  double exposed_s = 0;  // of it: waiting for others
  double spread = 0;     // deviation of the logarithm of what is left
};
struct TraceTimes {
  std::vector<StepTimes> workers;   // by rank
  std::vector<double> transfers_s;  // of exchanges in pairs, ascending
  int machines = 1;
};
// Reads trace.json of a run's folder. ConfigError: there is none, or nothing can be learnt from it;
// DataError: it is no trace.
TraceTimes read_trace_times(const std::filesystem::path& folder);
// The same of the text of such a file; errors name it.
TraceTimes parse_trace_times(const std::string& json, const std::string& file);

}  // namespace gossamer::apps
