// Checkpoints of a run: one file for each worker, runs/NAME/checkpoints/LABEL/rank-R.safetensors,
// with all its state. One worker alone, or all-reduce, continues exactly. With gossip the models
// are exact, while timing and estimates of progress begin anew. Tensors have their memory layout:
// convolution weights are [out, h, w, in]. (The averaged model at the end: nn/checkpoint.h.)
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "gossamer/apps/train/ema.h"
#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/resume_point.h"
#include "gossamer/apps/train/run_figures.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/method.h"
#include "gossamer/nn/module.h"

namespace gossamer::apps {

struct TrainState {
  FlatParams& params;
  Optimizer& optimizer;
  dist::Method& method;
  nn::Module& net;
  Ema* ema = nullptr;  // none without train.ema
};

// What the file of a worker says about the run so far.
struct FiguresSoFar {
  RunFigures earlier{}, leg{};  // of all workers before this leg; of this worker in it
  std::vector<int> alive{};     // the workers that write this checkpoint; empty: all
  std::string patience{};       // Patience::text()
  std::map<std::string, std::string> model{};  // Task::model_header()
};

// Copies the state between two events and writes it (atomically, fsynced); then removes checkpoints
// that are no longer needed. If it cannot be written, it makes room first, then throws IoError, and
// leaves no empty folder.
void save_checkpoint(const std::filesystem::path& run_folder, const std::string& label, int rank,
                     int world, TrainState, const Position&, const SampleOrder&, i64 keep,
                     const FiguresSoFar& = {});

// Removes files of checkpoints, but never the newest whole checkpoint nor, if none is whole, the
// newest of all. With `keep` whole ones, all that is older; else what this rank has beyond the
// newest `keep`. Each rank cares for its own files, so none needs to know how far the others are.
// keep = 0 makes room. kAllRanks: when no worker writes any more.
constexpr int kAllRanks = -1;
void prune_checkpoints(const std::filesystem::path& run_folder, int rank, i64 keep);

// If as many workers wrote a complete checkpoint: loads the state of this rank (with all-reduce
// that of rank 0, which all share). Otherwise: loads the mean of the saved models, with momentum 0
// and an EMA that starts there, and begins the next epoch. IoError.
Continuation load_checkpoint(const ResumePoint&, int rank, int world, TrainState,
                             const SampleOrder& now);

}  // namespace gossamer::apps
