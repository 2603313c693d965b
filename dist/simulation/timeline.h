// Which workers compute, which wait, and how fast it all goes: steps per second of simulated
// machines, without any parameters.
// Threads: any.
#pragma once

#include "gossamer/dist/simulation/simulator.h"

namespace gossamer::dist {

// Of the simulated time, each worker computes, waits for others, or waits for a transfer that
// computation does not hide.
struct WorkerTimeline {
  double steps_per_s = 0, exchanges_per_step = 0;
  double computing = 0, waiting = 0, exposed = 0;  // fractions of the time; their sum is 1
};
struct TimelineResult {
  std::vector<WorkerTimeline> workers;
  double seconds = 0;
  double steps_per_s = 0;  // of all workers
  // had each computed all the time, at the speed at which it computed
  double perfect_steps_per_s = 0;
  double efficiency = 0;  // the first by the second
};
// seconds: simulated for about so long. A method without rounds pairs by plan.options.pairing
// (poisson, which takes no time, counts as handshake). For a step of the others (rounds/step.h):
//   average_gradients  all-reduce of each bucket (machines.h) once the slowest has it and the
//                      bucket before is through; forward takes a third of the computation
//   average            the same of the whole model
//   mix                the models that the neighbours have at the end of the step
//   mix_ahead          own end of the step, and the models that they had at its beginning
// Transfers with several neighbours follow one another on the wire; four or more that take the mean
// of the same models meet in an all-reduce. The link of a node is shared by the transfers of a
// round that use it.
TimelineResult simulate_timeline(const SimulationPlan&, double seconds);

}  // namespace gossamer::dist
