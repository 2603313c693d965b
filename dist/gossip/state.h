// What the training thread and the communication thread of one worker share, under one mutex: every
// event, of either kind, is applied while it is held, so events have one order.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "gossamer/dist/edge_statistics.h"
#include "gossamer/dist/gossip/equal_weight.h"
#include "gossamer/dist/gossip/event_log.h"
#include "gossamer/dist/gossip/model.h"
#include "gossamer/dist/gossip/policy.h"
#include "gossamer/dist/gossip/rejoin.h"
#include "gossamer/dist/gossip/roster.h"
#include "gossamer/dist/gossip/tracking.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {

struct GossipState {
  GossipState(GossipModel of_params, Tensor statistics, Roster members,
              const ConsensusEstimate& distance, int workers)
      : model(std::move(of_params)),
        buffers(std::move(statistics)),
        roster(std::move(members)),
        estimate(distance),
        step_times(workers) {}

  std::mutex mutex;
  std::condition_variable changed;  // the hold moved, an exchange ended, or error was set

  GossipModel model;
  // batch-norm statistics; the training thread writes them, under no lock
  Tensor buffers;
  GradientClock clock;
  RateTracker rate;
  double eta_at_rate_1 = 0;  // of the graph as it is now

  Roster roster;        // who takes part, and how much all have done
  TrackingEpoch epoch;  // in which y is averaged, if the model has one

  // How far training may run ahead of its exchanges; the communication thread sets it after each of
  // its events.
  Hold hold;
  // Training waited as long as `hold` says, when its clock stood at this time; -1: it did not.
  double waited_in_vain = -1;

  bool in_flight = false;  // between the two halves of a communication event
  bool held = false;       // quiesce() waits or works: no new event begins
  ConsensusEstimate estimate;
  // With equal weight: how long a step takes here, and everywhere; the others don't know ours yet.
  StepTime step_time;
  StepTimes step_times;
  bool tell_step_time = false;
  EdgeStatistics edges;
  std::vector<std::unique_ptr<EventLog>> logs;
  void happened(const WorkerEvent& e) {
    for (const auto& log : logs) log->happened(e);
  }
  // for workers that were started again; none: this worker is alone
  std::unique_ptr<StateSender> sender;
  Optimizer* optimizer = nullptr;  // set before there is a sender
  void fill_sender() {
    const GossipModel::Access access(model);
    sender->fill(model.x(), model.has_twin() ? &model.twin() : nullptr, buffers, optimizer->state(),
                 roster.count());
  }
  std::exception_ptr error;  // of the communication thread; thrown by the next step
  MethodStats stats;
};

}  // namespace gossamer::dist
