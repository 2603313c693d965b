// One worker of a run: everything it owns, set up in worker.cpp, trained in train.cpp, settled in
// finish.cpp.
#pragma once

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/config.h"
#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/report/run_folder.h"
#include "gossamer/apps/report/tensorboard.h"
#include "gossamer/apps/train/checkpoint.h"
#include "gossamer/apps/train/evaluate.h"
#include "gossamer/core/flat.h"
#include "gossamer/data/cache.h"
#include "gossamer/data/loader/loader.h"
#include "gossamer/dist/faults/injector.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/nn/optim.h"
#include "gossamer/nn/schedule.h"

namespace gossamer::apps {

struct Worker {
  Worker(Config, const TrainCommand&, const dist::LaunchInfo&, const std::optional<ResumePoint>&);
  TrainState state() { return {*params, *optimizer, *method, *net}; }
  // from any thread: log and tell
  void fault(const std::string& what, int peer);
  // side of training images: data.sizes at this point of the run, `coming` images later
  int picture_size(double coming = 0) const;
  void inject();         // sets up injector and group as dist.inject says
  void use_gpu_group();  // tensors of the group lie on `device` from now on
  void log_exchange(const dist::ExchangeRecord&) const;  // from any thread
  void start_trace();
  void write_trace();  // trace-RANK.json, if one was asked for

  const Config config;
  const TrainCommand command;
  const dist::LaunchInfo place;
  const Device device;  // where this worker computes
  RunFolder folder;
  // TensorBoard: worker 0 while training, who leads at the end
  EventWriter board;
  Progress progress;
  std::shared_ptr<const data::Dataset> train_set, val_set;
  std::shared_ptr<data::Cache> cache;  // of both, with data.cache_gb; else none
  Pictures prepare;
  std::unique_ptr<dist::Injector> injector;  // dist.inject: faults on purpose; none otherwise
  // the group below the faults, and that below the GPU's, where there are such
  std::unique_ptr<dist::Group> undisturbed, on_host;
  std::unique_ptr<dist::Group> group;
  std::unique_ptr<nn::Module> net;
  std::unique_ptr<FlatParams> params;
  std::unique_ptr<Optimizer> optimizer;
  dist::Graph graph;
  std::unique_ptr<dist::Method> method;  // after what its thread uses, so that it stops first
  std::unique_ptr<data::Loader> loader;
  nn::Schedule schedule;
  double total_samples = 0, start_samples = 0;  // of all workers
  Position at;                                  // next batch
  ImageOrder order;                             // of its images
  double wall_s = 0;                            // of the training loop
  std::atomic<bool> settled{false};  // the run is averaged: who leaves now is not a fault
  std::atomic<bool> lost{false};     // some worker was lost on the way
  double trace_began_us = 0;
};

// Opens data, checks classes: what can be checked before any worker is started.
struct DataSets {
  std::shared_ptr<const data::Dataset> train, val;
};
DataSets open_data(const Config&, int workers);

// After the loop: average, batch norm, evaluation, files. Returns the exit code.
int finish_run(Worker&);

}  // namespace gossamer::apps
