// For tests of workers of unlike speed.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::dist {

// One worker does one step where each of the others does ten, however busy the machine is.
class Speeds {
 public:
  static constexpr int kTimes = 10;
  Speeds(int workers, int slow) : slow_(slow), done_(static_cast<std::size_t>(workers)) {}
  void step(int rank) {
    const i64 mine = ++done_.at(static_cast<std::size_t>(rank));
    const auto ahead = [&] {  // in steps of a fast one
      for (std::size_t other = 0; other < done_.size(); ++other)
        if (mine * pace(rank) > (done_[other] + 1) * pace(static_cast<int>(other))) return true;
      return false;
    };
    while (ahead()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  void leaves(int rank) { done_.at(static_cast<std::size_t>(rank)) = 1 << 30; }
  struct Leaves {  // whichever way it ends
    Speeds& speeds;
    int rank;
    ~Leaves() { speeds.leaves(rank); }
  };

 private:
  i64 pace(int rank) const { return rank == slow_ ? kTimes : 1; }
  const int slow_;
  std::vector<std::atomic<i64>> done_;
};

}  // namespace gossamer::dist
