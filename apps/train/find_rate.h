// `train --find-lr`: the learning rate range test of Smith 2017 (arXiv:1506.01186, section 3.3), as
// fastai and others do it: the rate rises exponentially from gradient to gradient, until the loss
// grows without bounds.
#pragma once

#include <optional>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/dist/net/launch.h"

namespace gossamer::apps {

inline constexpr int kSweepGradients = 150;
inline constexpr double kLowestRate = 1e-6, kHighestRate = 10;

class RateSweep {
 public:
  struct Point {
    double rate, loss;  // the rate of an update; the smoothed loss before it
  };
  // of the next update
  double rate() const;
  // The loss of the batch before that update. False if the sweep is over: its last rate was
  // reached, or the smoothed loss is above 4 times its least.
  bool add(double loss);
  bool diverged() const { return diverged_; }
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
  double mean_ = 0, least_ = 0;
  bool diverged_ = false;
};

// The middle of the longest fall of the smoothed loss, as fastai suggests by default ("valley"):
// the steepest place, which others take, may be noise of the first batches. None if the longest
// fall has less than ten points, each below the one before; other points may lie between them.
std::optional<RateSweep::Point> suggested(const std::vector<RateSweep::Point>&);

// The sweep of one worker. Nothing is written but a page with the curve, RUN-lr.html beside the
// folder that the run would have. Returns the exit code.
int find_rate(const Config&, const dist::LaunchInfo&, bool json);

}  // namespace gossamer::apps
