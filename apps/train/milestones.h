// What a worker does at certain numbers of samples: checkpoints, evaluations, measurements of the
// consensus distance.
#pragma once

#include <chrono>
#include <cmath>
#include <functional>

#include "gossamer/apps/train/checkpoints.h"
#include "gossamer/apps/train/evaluations.h"
#include "gossamer/apps/train/journal.h"
#include "gossamer/apps/train/plan.h"
#include "gossamer/apps/train/trainer.h"

namespace gossamer::apps {

class Milestones {
 public:
  Milestones(const Plan&, Journal&, Trainer&, Checkpoints&);
  void after_step();
  void last();  // after the loop

 private:
  using Clock = std::chrono::steady_clock;
  double first(const Amount& every) const;  // the first multiple after the start, in samples
  // Makes the evaluations and measurements that are due at `seen` samples.
  void look(double seen);
  void evaluate(double seen);
  void measure_consensus();
  // Saves a checkpoint if one is due at `seen` samples.
  void save_on_the_way(double seen);
  // For checkpoints by the clock: the lowest living worker tells all at which samples they save.
  void appoint(double seen);
  // Runs a step in which all workers take part; false if some worker was lost, now or before.
  bool together(const char* what, const std::function<void()>& step);

  const Plan& plan_;
  Journal& journal_;
  Trainer& trainer_;
  Checkpoints& checkpoints_;
  Evaluations evaluations_;
  double epoch_;                     // samples
  double evaluate_at_, measure_at_;  // samples
  double evaluated_at_ = 0;
  // Checkpoints come at multiples of so many samples, or so many seconds after the last one, at
  // samples that one worker decides for all.
  double save_every_ = INFINITY, save_every_s_ = INFINITY;
  double save_at_ = INFINITY;  // samples
  Clock::time_point saved_ = Clock::now(), began_ = saved_;
  double announced_ = 0;  // samples of the last appointment
  bool told_of_waiting_ = false;
  i64 steps_ = 0;
  // false once a worker was lost, because the others would wait for it
  bool all_meet_;
  bool alone_ = false;  // an evaluation was not of the average
};

}  // namespace gossamer::apps
