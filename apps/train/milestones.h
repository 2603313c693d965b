// What a worker does at certain numbers of samples: checkpoints, evaluations, measurements of the
// consensus distance.
#pragma once

#include "gossamer/apps/train/worker.h"

namespace gossamer::apps {

class Milestones {
 public:
  explicit Milestones(Worker&);
  void after_step();
  void last();  // after the loop

 private:
  double first(double every_epochs) const;  // multiple of that after the start, in samples
  void evaluate_own(double seen);
  void measure_consensus(double seen);

  Worker& w_;
  double epoch_;                               // images
  double evaluate_at_, save_at_, measure_at_;  // samples
  // false once a worker was lost, because the others would wait for it
  bool measures_;
};

}  // namespace gossamer::apps
