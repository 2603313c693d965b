// Checkpoints of a run in training: one file a worker, everything that an exact continuation needs. (The averaged model at the end is
// another file: nn/checkpoint.h.) runs/NAME/checkpoints/LABEL/rank-R.safetensors; memory layout, convolution weights are [out, h, w, in].
#pragma once

#include <filesystem>
#include <string>

#include "gossamer/core/flat.h"
#include "gossamer/core/optimizer.h"
#include "gossamer/dist/method.h"
#include "gossamer/nn/module.h"

namespace gossamer::apps {

struct Position {
  double samples = 0;              // seen by all workers
  i64 epoch = 0, step = 0;         // next batch of this worker's loader
};

struct TrainState { FlatParams& params; Optimizer& optimizer; dist::Method& method; nn::Module& net; };

// Copies the state between two events, then writes it (atomic, fsynced) and removes the oldest beyond `keep` of this rank.
void save_checkpoint(const std::filesystem::path& run_folder, const std::string& label, int rank, int world, TrainState, const Position&, i64 keep);

// What --resume names: a run's folder (its newest whole checkpoint is taken) or one checkpoint. IoError says what is missing.
struct ResumePoint {
  std::filesystem::path run_folder, checkpoint;
  int world = 1;                   // workers that wrote it
  double samples = 0;              // the most that any of them had seen
};
ResumePoint find_checkpoint(const std::filesystem::path&);

// Same number of workers: this rank's exact state. Another number: the mean of the saved models with fresh momentum, next epoch.
Position load_checkpoint(const ResumePoint&, int rank, int world, TrainState);

}  // namespace gossamer::apps
