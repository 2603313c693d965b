// What a worker says: the progress display of the lowest living rank, notes, warnings. On a
// terminal one line that is rewritten, elsewhere a plain line after the first step and then every
// few seconds.
#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>

namespace gossamer::apps {

struct ProgressState {
  double samples = 0, total = 1, epoch_size = 1;  // of all workers
  double step = 0;              // samples of a step of all workers; 0: epochs are shown
  std::string unit = "images";  // what samples are
  double loss = 0;              // of this worker, smoothed
  double learning_rate = 0;
  double data_wait_s = 0;  // of this worker since the start
  double exchanges_per_step = 0;
  double asked_per_step = 0;  // 0: as many as were asked for
  double consensus = 0;
  bool exchanges = false;  // whether the method has any
  int alive = 1, workers = 1;
};

class Progress {
 public:
  // silent: on all ranks but the lowest that lives. seconds: a clock; empty: since now.
  Progress(std::FILE* out, bool silent, std::function<double()> seconds = {});
  // Whether update() would print now.
  bool due();
  // Called after a step. Prints if a line is due, or if it is the last.
  void update(const ProgressState&, bool last = false);
  void note(const std::string& line);  // prints a line of its own; from any thread
  // The same on stderr, and also if silent.
  void warn(const std::string& line);
  bool silent() const { return silent_; }
  void set_silent(bool silent) { silent_ = silent; }  // from any thread

 private:
  bool due(double now) const { return last_s_ < 0 || now - last_s_ >= every_s_; }
  std::string text(const ProgressState&, double now) const;
  void print(const std::string&);
  std::FILE* out_;
  std::atomic<bool> silent_;
  bool terminal_, colour_;
  double every_s_;
  std::function<double()> seconds_;
  std::mutex mutex_;
  // last_: what was printed last; mark_: where the interval for the speed began
  double last_s_ = -1, last_samples_ = -1;
  double mark_s_ = 0, mark_samples_ = 0, mark_wait_ = 0, rate_ = 0, wait_share_ = 0;
  bool line_open_ = false;
};

std::string duration_text(double seconds);  // "1:06", "2:03:59"
std::string perplexity_text(double);        // 21.50; of a model that knows nothing 1.2e+36

}  // namespace gossamer::apps
