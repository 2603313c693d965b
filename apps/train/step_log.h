// What is written about the steps of a worker: log.jsonl, TensorBoard, the progress line, the
// trace.
#pragma once

#include <chrono>

#include "gossamer/apps/train/journal.h"
#include "gossamer/apps/train/plan.h"
#include "gossamer/apps/train/trainer.h"
#include "gossamer/nn/train/gradient_step.h"

namespace gossamer::apps {

class StepLog {
 public:
  StepLog(const Plan&, Journal&, Trainer&);
  // Shows the first batch in TensorBoard, if this worker is the one that speaks. at: its place.
  void first_batch(const nn::DrawnBatch&, const nn::Position& at);
  void before_step();  // starts and stops the trace of run.trace_steps
  // Reads the losses if that waits for nothing or a log line is due. Error if they are not finite.
  void before_update(nn::LossSum&, double learning_rate);
  void after_step(double learning_rate);
  void last(nn::LossSum&, double learning_rate);
  // A worker was lost, and so many batches that it had not brought are dealt again.
  void dealt_again(i64 batches);
  // Appends damaged images that were met since the last call to bad_images.txt.
  void list_damaged();

 private:
  using Clock = std::chrono::steady_clock;
  void read_losses(nn::LossSum&, double learning_rate);
  void log_step(double seen, double learning_rate);
  void log_skipped(JsonObject& row);
  void show(double seen, double learning_rate, bool last);

  const Plan& plan_;
  Journal& journal_;
  Trainer& trainer_;
  double epoch_;  // images
  double asked_;  // exchanges of this worker per gradient, by the graph; 0: nobody asks
  double loss_sum_ = 0, smooth_loss_ = 0;
  std::size_t listed_ = 0;  // damaged images
  // unread: steps whose loss was not read yet
  i64 steps_ = 0, since_log_ = 0, unread_ = 0;
  i64 skipped_ = 0, skipped_in_a_row_ = 0;  // steps left out because gradients overflowed
  dist::MethodStats logged_;
  Clock::time_point logged_at_ = Clock::now(), read_at_;  // read_at_: a loss
  double logged_samples_;
  int alive_;  // workers, before the run was stopped
};

}  // namespace gossamer::apps
