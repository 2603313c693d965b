// What a worker does at certain numbers of samples: checkpoints, evaluations, measurements of the
// consensus distance.
#pragma once

#include "gossamer/apps/train/evaluations.h"
#include "gossamer/apps/train/worker.h"

namespace gossamer::apps {

class Milestones {
 public:
  explicit Milestones(Worker&);
  void after_step();
  void last();  // after the loop

 private:
  double in_samples(const Amount&) const;
  double first(const Amount& every) const;  // multiple of that after the start, in samples
  // Evaluations and measurements until `seen` samples.
  void look(double seen);
  void evaluate(double seen);
  void measure_consensus();
  // Runs a step in which all workers take part; false if some worker was lost, now or before.
  bool together(const char* what, const std::function<void()>& step);

  Worker& w_;
  Evaluations evaluations_;
  double epoch_;                               // samples
  double evaluate_at_, save_at_, measure_at_;  // samples
  // false once a worker was lost, because the others would wait for it
  bool all_meet_;
  bool alone_ = false;  // an evaluation was not of the average
};

}  // namespace gossamer::apps
