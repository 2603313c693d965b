// Which of several ways to compute the same thing is the fastest, from noisy times.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace gossamer {

// A candidate and its median time.
struct Ranked {
  std::size_t candidate;
  double microseconds;
};
// Orders candidates 0 … n - 1, the fastest first. Each is timed three times, or once if that took
// twice as long as the fastest so far. Then the best five run again in turn, fifteen times each, so
// that a change of clocks falls on all of them alike; they keep the first places. time(candidate)
// gives microseconds, or 0 for a candidate that does not run. One that does not run every time is
// left out.
std::vector<Ranked> rank_by_time(std::size_t n, const std::function<double(std::size_t)>& time);

}  // namespace gossamer
