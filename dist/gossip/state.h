// What the training thread and the communication thread of one worker share, under one mutex: every
// event, of either kind, is applied while it is held, so events have one order.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "gossamer/dist/edge_statistics.h"
#include "gossamer/dist/gossip/carrier.h"
#include "gossamer/dist/gossip/rejoin.h"
#include "gossamer/dist/gossip/replay.h"
#include "gossamer/dist/gossip/worker_state.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {

struct GossipState {
  GossipState(Tensor values, Tensor statistics, bool with_twin)
      : worker(std::move(values), with_twin), buffers(std::move(statistics)) {}

  std::mutex mutex;
  std::condition_variable changed;  // the hold moved, an exchange ended, or error was set

  WorkerState<Tensor> worker;
  std::unique_ptr<Carrier> carrier;  // none: this worker is alone
  // batch-norm statistics; the training thread writes them, under no lock
  Tensor buffers;
  GradientClock clock;
  RateTracker rate;
  double eta_at_rate_1 = 0;  // of the graph as it is now

  // Progress (P5): +1 with each own gradient, averaged with the partner at each exchange. The sum
  // over workers is the number of gradients done by all; so (number of workers) * progress
  // estimates it anywhere. A dead worker takes its share with it, about as large as ours at that
  // moment: that share is kept in `beyond`, since its gradients have been used, and comes off it
  // when the worker is back. `beyond` is averaged as progress is. Both are left alone between two
  // that do not know of the same deaths yet.
  double progress = 0, beyond = 0;
  std::vector<Account> accounts;  // by rank: progress that is no sign of gradients
  int alive = 1;
  double members = 0;  // names the set of workers that count as alive
  // the number of gradients stays what it was found to be
  void set_alive(int count, double gradients) {
    alive = count;
    stats.alive = count;
    beyond = gradients - alive * progress;
  }
  // this worker is done: its progress stays, or a partner would stop short on account of it
  bool settled = false;
  double gradients_of_all() const { return beyond + alive * progress; }

  // Pace: set by the communication thread after each of its events. What training did not get in
  // that time it does without.
  Hold hold;
  double waited_in_vain = -1;  // up to this time of the clock; -1: it did not

  bool in_flight = false;  // between the two halves of a communication event
  bool held = false;       // quiesce() waits or works: no new event begins
  // moving average of |x_i - x_j|^2 over exchanges; -1: none yet
  double squared_distance = -1;
  EdgeStatistics edges;
  std::unique_ptr<Recorder> recorder;  // none: this run is not recorded
  std::unique_ptr<Replay> replay;      // none: it is not a repetition; has a mutex of its own
  void record(const RecordedEvent& e) {
    if (recorder) recorder->add(e);
  }
  // for those that were started again; none: this worker is alone
  std::unique_ptr<StateGiver> giver;
  void give() {
    giver->fill(worker.x(), worker.has_twin() ? &worker.twin() : nullptr, buffers,
                {progress, gradients_of_all(), accounts});
  }
  std::exception_ptr error;  // of the communication thread; thrown by the next step
  MethodStats stats;
};

}  // namespace gossamer::dist
