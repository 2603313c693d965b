// What a run has done so far, over all its legs: from its start to the first interruption, and from
// each resume to the next. Checkpoints carry it, so that the summary is of the whole run.
#pragma once

#include <string>

namespace gossamer::apps {

struct RunFigures {
  double legs = 0;
  // Of the run; wall_s: of its training loop; dealt_again: samples whose worker was lost before it
  // brought them (train.global_batch).
  double samples = 0, dealt_again = 0, wall_s = 0;
  // of all workers together; worker_s is their wall_s
  double worker_s = 0, gradients = 0, skipped_steps = 0, exchanges = 0, failed = 0, refused = 0;
  double exposed_s = 0, transfer_s = 0, bytes_sent = 0, data_wait_s = 0, failed_checkpoints = 0;

  RunFigures& operator+=(const RunFigures&);  // a later leg
  // The same leg, seen by another worker: times of the run are not added.
  RunFigures& merge(const RunFigures&);
  std::string json() const;
};

// Zeros for what is missing or no number.
RunFigures parse_figures(const std::string& json);

}  // namespace gossamer::apps
