// What the training thread and the communication thread of one worker share, under one mutex: every event, of either kind, is applied
// while it is held, so events have one order.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>

#include "gossamer/core/random.h"
#include "gossamer/dist/clock.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/worker_state.h"

namespace gossamer::dist {

struct GossipState {
  GossipState(Tensor values, bool with_twin, std::uint64_t seed, int rank)
      : worker(std::move(values), with_twin), random(seed, 0x676f7373u + static_cast<std::uint64_t>(rank)) {}

  std::mutex mutex;
  std::condition_variable changed;       // owed fell, an exchange ended, or error was set

  WorkerState<Tensor> worker;
  GradientClock clock;
  RateTracker rate;
  double eta_at_rate_1 = 0;              // of the graph as it is now

  // Progress (P5): +1 with each own gradient, averaged with the partner at each exchange. The sum over workers is the number of gradients
  // done by all; so (number of workers) * progress estimates it anywhere. A dead worker takes its share with it, about as large as
  // ours at that moment: that share is kept here, since its gradients have been used.
  double progress = 0, progress_of_dead = 0;
  int alive = 1;
  bool settled = false;                  // this worker is done: its progress stays, or a partner would stop short on account of it
  double gradients_of_all() const { return progress_of_dead + alive * progress; }

  // The worker's own Poisson clock: exchanges that it has to start. An exchange between two has two possible starters, hence each starts
  // half of its share and answers the other half.
  Rng random;
  double starts_per_gradient = 0, next_start = 0;
  i64 owed = 0;                          // due, not started yet
  void draw_next_start() { next_start += random.exponential() / starts_per_gradient; }
  void collect_due(double t) {
    if (starts_per_gradient <= 0) return;
    for (; next_start <= t; draw_next_start()) ++owed;
  }

  bool in_flight = false;                // between the two halves of a communication event
  bool held = false;                     // quiesce() waits or works: no new event begins
  double squared_distance = -1;          // moving average of |x_i - x_j|^2 over exchanges; -1: none yet
  std::exception_ptr error;              // of the communication thread; thrown by the next step
  MethodStats stats;
};

}  // namespace gossamer::dist
