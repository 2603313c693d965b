// What is told about the steps of a worker (log.jsonl, TensorBoard, progress line, trace), and what
// happens at some number of samples: checkpoints, evaluations, measurements.
#pragma once

#include <chrono>

#include "gossamer/apps/train/loop.h"
#include "gossamer/apps/train/worker.h"

namespace gossamer::apps {

class Bookkeeper {
 public:
  explicit Bookkeeper(Worker&);
  // of the loop; looked at when that costs nothing, or a line is due
  LossSum* losses = nullptr;
  void before_step();
  void before_update(double learning_rate);  // Error if the losses are no numbers
  void after_step(double learning_rate);
  void last(double learning_rate);
  void save(const std::string& label);  // a checkpoint
  // images that were met since the last time, into bad_images.txt
  void list_damaged();

 private:
  using Clock = std::chrono::steady_clock;
  void look(double learning_rate);
  // the first multiple after the start, in samples
  double next(double every_epochs) const;
  void log_step(double seen, double learning_rate);
  void log_skipped(JsonObject& row);
  void to_board(double samples, const std::vector<std::pair<std::string, double>>& values);
  void show(double seen, double learning_rate, bool last);
  void evaluate_own(double seen);
  void measure_consensus(double seen);

  Worker& w_;
  double epoch_, eval_, save_, measure_;
  double loss_sum_ = 0, smooth_loss_ = 0;
  std::size_t listed_ = 0;  // damaged images
  // unseen: steps whose loss nobody has looked at
  i64 steps_ = 0, since_log_ = 0, unseen_ = 0;
  i64 skipped_ = 0, skipped_in_a_row_ = 0;  // steps left out because gradients overflowed
  dist::MethodStats logged_;
  Clock::time_point logged_at_ = Clock::now();
  double logged_samples_;
  // false once a worker was lost: the others would wait for it
  bool measures_ = true;
};

}  // namespace gossamer::apps
