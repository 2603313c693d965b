// The progress line of commands that go through a data set, on stderr, and their answer to Ctrl-C.
#pragma once

#include <chrono>
#include <string>

#include "gossamer/core/dtype.h"

namespace gossamer::apps {

class DataProgress {
 public:
  // from now on a signal only ends the work between two pictures
  DataProgress(std::string what, i64 total, bool silent);
  ~DataProgress();
  DataProgress(const DataProgress&) = delete;
  DataProgress& operator=(const DataProgress&) = delete;
  bool operator()(i64 done);  // false: a signal came
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  i64 total_;
  bool silent_, terminal_, open_ = false;
  Clock::time_point start_ = Clock::now();
  double next_s_ = 0.5;
};

int stopped_code();  // exit code after a signal: 130, 143

}  // namespace gossamer::apps
