// What one worker of a run reports: the run's folder with its log, TensorBoard, the progress line,
// faults and warnings, and the trace.
#pragma once

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/report/run_folder.h"
#include "gossamer/apps/report/tensorboard.h"
#include "gossamer/apps/train/plan.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/transport.h"

namespace gossamer::apps {

class Journal {
 public:
  explicit Journal(const Plan&);
  // Logs and prints a fault of another worker. From any thread.
  void fault(const std::string& what, int peer);
  void exchange(const dist::ExchangeRecord&) const;  // from any thread
  // Logs a fault of this worker, and prints it on stderr if aloud.
  void warn(const std::string& what, bool aloud = true);
  // Adds values to TensorBoard, if this worker is the one that speaks.
  void show(double samples, const std::vector<std::pair<std::string, double>>& values);
  // A line of the log: something that all do together has failed.
  void failed_together(const std::string& what, const std::exception&) const;
  void start_trace();
  bool traces() const { return trace_began_us_ > 0; }
  // trace-RANK.json, if a trace was started; a warning if it cannot be written.
  void write_trace(dist::Group&);
  // From now on a worker that leaves is no fault: the models are averaged, or the run was stopped.
  void ends() { ended_ = true; }
  // Some worker of those that began was lost on the way; some worker came or went.
  bool lost() const { return lost_; }
  bool changed() const { return changed_; }
  // Whether this worker decides when checkpoints are due and writes what one writes for all: the
  // lowest that lives of those that began the run.
  bool leads() const { return !progress.silent() && !plan_.joined(); }

  RunFolder folder;
  EventWriter board;  // TensorBoard: written by the lowest living worker
  Progress progress;

 private:
  const Plan& plan_;
  std::mutex mutex_;
  // Workers that this one knows to be dead: the lowest living one speaks.
  std::set<int> dead_;
  std::set<int> refused_by_;  // with whom an exchange was refused
  std::atomic<bool> ended_{false}, lost_{false}, changed_{false};
  double trace_began_us_ = 0;
};

}  // namespace gossamer::apps
