// The progress line of commands that go through data, on stderr, and their answer to Ctrl-C.
#pragma once

#include <functional>
#include <string>

#include "gossamer/core/dtype.h"

namespace gossamer::apps {

// One line that is rewritten on a terminal; elsewhere a line every half minute, or none.
class ProgressLine {
 public:
  struct Options {
    i64 total = -1;      // below 0: not known
    std::string unit{};  // "images": what is counted, for the speed
    bool silent = false;
  };
  // seconds: a clock; empty: since now
  ProgressLine(std::string what, Options, std::function<double()> seconds = {});
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(i64 done);  // of all, not of the last call
  double seconds() const { return seconds_(); }

 private:
  std::string what_;
  Options options_;
  bool terminal_, open_ = false;
  std::function<double()> seconds_;
  double next_s_ = 0.5;
};
// Whether somebody sees a progress line, and it does not mix with the answers, which are printed at
// the end or meanwhile.
bool progress_is_seen(bool answers_meanwhile);

class DataProgress {
 public:
  // from now on a signal only ends the work between two pictures
  DataProgress(std::string what, i64 total, bool silent);
  bool operator()(i64 done);  // false: a signal came
  double seconds() const { return line_.seconds(); }

 private:
  ProgressLine line_;
};

int stopped_code();  // exit code after a signal: 130, 143

}  // namespace gossamer::apps
