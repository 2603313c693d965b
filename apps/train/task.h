// What differs between the tasks (config.h: task): the data and its batches, the model and the loss
// of a batch, and what an evaluation measures. All else of a run is the same: methods, the loop,
// checkpoints, faults, the log.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/best.h"
#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/resume_point.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/text/json.h"
#include "gossamer/data/codec/image.h"
#include "gossamer/data/loader.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/nn/module.h"
#include "gossamer/nn/train/step_inputs.h"
#include "gossamer/nn/train/train_state.h"

namespace gossamer::apps {

// The base of the three interfaces below, which are held by pointers.
class TaskPart {
 public:
  TaskPart() = default;
  virtual ~TaskPart() = default;
  TaskPart(const TaskPart&) = delete;
  TaskPart& operator=(const TaskPart&) = delete;
};

class TaskData : public TaskPart {
 public:
  virtual std::string unit() const = 0;       // what samples are: "images", "tokens"
  virtual const char* rate_name() const = 0;  // "images/s", which lives on
  virtual double epoch() const = 0;           // samples of the training data
  virtual bool validates() const = 0;         // there are validation data
  virtual std::string val_hash() const = 0;
  // What the model's outputs stand for: the names of the classes, or which tokenizer's ids.
  virtual std::string outputs() const = 0;
  virtual i64 output_count() const = 0;                // of which one is right
  virtual std::string description() const = 0;         // one line
  virtual std::vector<std::string> notes() const = 0;  // what the user should know of them
  virtual std::vector<std::string> left_out() const { return {}; }  // damaged: "name: why"
  virtual void add_facts(JsonObject& launch) const = 0;             // for the first line of the log
  // ConfigError if a run must not go on with these data.
  virtual void check_resume(const ResumePoint&) const {}

  // Batches to train on. open_loader() first; check_loader() finds its errors before workers start.
  virtual void check_loader() const {}
  virtual std::vector<std::string> open_loader() = 0;  // returns notes
  virtual data::SampleOrder order() const = 0;
  virtual i64 steps() const = 0;  // batches of an epoch, for this worker
  // progress: the part of the run that is over, 0 to 1.
  virtual void seek(const nn::Position&, double progress) = 0;
  // The next batches are those of a deal (data/loader/deal.h), of the order that all workers have.
  virtual void deal(const data::Deal&, double progress) = 0;
  // The next batch; empty: the epoch is over.
  virtual nn::DrawnBatch next(const nn::Position&, double progress) = 0;
  virtual data::LoaderStats stats() const = 0;
  virtual std::vector<std::string> damaged() const { return {}; }  // "name: why"
  // Further numbers for the log, by name.
  virtual std::vector<std::pair<std::string, double>> figures() const { return {}; }
  // What the model is given of a batch, to look at.
  virtual std::vector<std::pair<std::string, data::Image>> pictures_of(
      const nn::DrawnBatch&) const {
    return {};
  }
};

class TaskModel : public TaskPart {
 public:
  // Drawn from train.seed; from_start: with what fits of model.init. Notes: what was taken.
  virtual std::unique_ptr<nn::Module> make(bool from_start,
                                           std::vector<std::string>& notes) const = 0;
  DType compute() const { return compute_; }  // type in which the layers compute
  // The header of the model's files: what it takes to use them.
  virtual std::map<std::string, std::string> header() const = 0;
  // Writes the f32 values. more: further entries of the header.
  void save(const std::filesystem::path&, nn::Module&, const FlatParams&,
            const std::map<std::string, std::string>& more = {}) const;
  // What else a folder needs for the models in it. Written when the run begins.
  virtual void save_beside(const std::filesystem::path& /*folder*/) const {}
  // The mean loss of a batch, []. numbers: those that were drawn, on the device of the model.
  virtual Tensor loss(nn::Module&, const nn::StepBatch&, const Tensor& numbers) const = 0;
  // Runs the model on a batch as in training, so that its running statistics follow the batch.
  virtual void run(nn::Module&, const nn::StepBatch&) const = 0;

 protected:
  explicit TaskModel(DType compute) : compute_(compute) {}
  virtual void write(const std::filesystem::path&, nn::Module&, const FlatParams&,
                     const std::map<std::string, std::string>& header) const;

 private:
  DType compute_;
};

class TaskMetrics : public TaskPart {
 public:
  // The part-th of `parts` shares of the validation data; max_batches 0: all of it.
  struct Share {
    int part = 0, parts = 1;
    i64 max_batches = 0;
    std::function<void(i64)> progress{};  // told the labels, or pairs, so far
  };
  // Evaluates each model, all in one pass over the data. final: keeps what the files of the run's
  // end show.
  virtual std::vector<Counts> evaluate(std::span<nn::Module* const>, const Share&, bool final) = 0;
  // Validation data that the final evaluation could not read: "name: why".
  virtual std::vector<std::string> damaged() const { return {}; }
  // Numbers of the final evaluation to be added up over the workers; set_details() takes the sum.
  virtual std::vector<double> details() const { return {}; }
  virtual void set_details(const std::vector<double>& /*sum*/) {}
  virtual std::string classes_json() const { return ""; }  // what it says of classes, if it does
  // What an evaluation says, by names for the log, and in words.
  using Numbers = std::vector<std::pair<std::string, double>>;
  virtual Numbers numbers(const Score&) const = 0;
  virtual std::string sentence(const Score&) const = 0;
  virtual std::string result(const Score& s) const { return sentence(s); }  // of the run's end
};

// Networks in eval mode; then each is as it was.
class EvalMode {
 public:
  explicit EvalMode(std::span<nn::Module* const>);
  ~EvalMode();
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<nn::Module*> trained_;
};

struct Task {
  std::unique_ptr<TaskData> data;
  std::unique_ptr<TaskModel> model;      // may refer to the data
  std::unique_ptr<TaskMetrics> metrics;  // the same
};

// Estimates the running statistics of a network again on so many batches to train on, from `at` on
// (nn::estimate_batch_norm): for weights that no training has had, such as an average.
void estimate_batch_norm(const Task&, nn::Module&, const nn::Position& at, i64 batches);

// An evaluation's numbers by their names in TensorBoard, where the loss is val_loss.
TaskMetrics::Numbers board_numbers(TaskMetrics::Numbers, bool ema);

// Opens the data of config.task. DataError, ConfigError as the data and the model say, also about
// texts that could not be written at the end. Configuration and place must outlive it.
Task make_task(const Config&, const dist::LaunchInfo&, Device);
Task make_task(Config&&, const dist::LaunchInfo&, Device) = delete;

}  // namespace gossamer::apps
