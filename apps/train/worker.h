// One worker of a run and all that it owns. worker.cpp sets it up, loop.cpp trains, finish.cpp ends
// the run.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/report/run_folder.h"
#include "gossamer/apps/report/tensorboard.h"
#include "gossamer/apps/train/checkpoint.h"
#include "gossamer/apps/train/checkpoints.h"
#include "gossamer/apps/train/patience.h"
#include "gossamer/apps/train/task.h"
#include "gossamer/core/flat.h"
#include "gossamer/dist/faults/injector.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/nn/optim.h"
#include "gossamer/nn/schedule.h"

namespace gossamer::apps {

struct WorkerOptions {
  bool dry_run = false;  // a few steps; nothing is written
  bool json = false;     // the summary goes to stdout as JSON, all other lines to stderr
  int dry_steps = 20;    // of a dry run
};

struct Worker {
  // Joins the group: returns when all workers are ready.
  Worker(Config, const WorkerOptions&, const dist::LaunchInfo&, const std::optional<ResumePoint>&);
  nn::TrainState state() { return {*net, *params, *optimizer, ema.get()}; }
  // Logs and prints it. From any thread.
  void fault(const std::string& what, int peer);
  void log_exchange(const dist::ExchangeRecord&) const;  // from any thread
  i64 parameter_count() const;                           // of the model, frozen ones too
  // Whether workers exchange their models with neighbours.
  bool exchanges() const { return place.size > 1 && config.train.method != "allreduce"; }
  // The part of the run that is over when `ahead` more samples have been seen; a dry run has all
  // of it.
  double part(double ahead = 0) const;
  // Says it on stderr and logs it as a fault.
  void warn(const std::string& what, bool aloud = true);
  // Tells this run from others of its name; the same on all workers.
  std::string run_id() const;
  // What this worker has done since the start or the resume of the run.
  RunFigures leg() const;
  // TensorBoard, of the worker that speaks; its step is the number of gradients of all workers.
  void add_to_board(double samples, const std::vector<std::pair<std::string, double>>& values);
  void start_trace();
  void write_trace();  // trace-RANK.json, if a trace was started; a warning if it cannot be written

  const Config config;
  const WorkerOptions options;
  const dist::LaunchInfo place;
  const Device device;  // where this worker computes
  RunFolder folder;
  EventWriter board;  // TensorBoard: written by the lowest living worker
  Progress progress;
  std::unique_ptr<Task> task;
  std::unique_ptr<dist::Injector> injector;  // deliberate faults (dist.inject), or none
  std::unique_ptr<dist::Group> undisturbed;  // with injected faults: the group below them
  std::unique_ptr<dist::Group> on_host;      // on a GPU: the group below its own
  std::unique_ptr<dist::Group> group;
  std::unique_ptr<nn::Module> net;
  std::unique_ptr<FlatParams> params;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<nn::Ema> ema;  // none without train.ema
  dist::Graph graph;
  // Workers that this one knows to be dead: the lowest living one speaks.
  std::set<int> dead;
  std::set<int> refused_by;  // with whom an exchange was refused
  std::mutex dead_mutex;
  // declared after all that its thread uses, so that the thread stops first
  std::unique_ptr<dist::Method> method;
  nn::Schedule schedule;
  double total_samples = 0, start_samples = 0;  // of all workers
  nn::Position at;                              // next batch
  std::chrono::steady_clock::time_point began;  // the training loop
  double wall_s = 0;                            // it took
  Patience patience;
  RunFigures earlier;                  // of the legs before this one
  std::filesystem::path resumed_from;  // the run's folder, or empty
  std::atomic<bool> finished{false};   // the models are averaged: a worker that leaves is no fault
  std::atomic<bool> lost{false};       // some worker was lost on the way
  double trace_began_us = 0;
  Checkpoints checkpoints{*this};

 private:
  // The steps of the constructor, in their order.
  void open_task();
  void make_model(bool from_checkpoint);
  void join_group();
  void inject();         // dist.inject: the injector, and a group that it disturbs
  void use_gpu_group();  // from now on the group's tensors lie on `device`
  void make_method();
  void make_loader();
  void resume_from(const std::optional<ResumePoint>&);
  void describe(const std::vector<std::string>& table, const std::optional<ResumePoint>&);
  void begin_folder(const std::optional<ResumePoint>&);
  void keep_older_record();
};

}  // namespace gossamer::apps
