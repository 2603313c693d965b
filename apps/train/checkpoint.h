// Checkpoints of a run: one file for each worker, runs/NAME/checkpoints/LABEL/rank-R.safetensors,
// with all its state. One worker alone, or all-reduce, continues exactly. With gossip the models
// are exact, while timing and estimates of progress begin anew. Tensors have their memory layout:
// convolution weights are [out, h, w, in]. (The averaged model at the end: nn/checkpoint.h.)
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gossamer/apps/train/inputs.h"
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
};

// Copies the state between two events and writes it (atomically, fsynced); then removes the oldest
// checkpoints of this rank, so that `keep` remain. IoError.
void save_checkpoint(const std::filesystem::path& run_folder, const std::string& label, int rank,
                     int world, TrainState, const Position&, const ImageOrder&, i64 keep);

// The checkpoint that --resume names: the newest complete one of a run's folder, or one folder of a
// checkpoint. IoError says what is missing.
struct ResumePoint {
  std::filesystem::path run_folder, checkpoint;
  std::vector<std::filesystem::path> files;  // of ranks 0, 1 …; some may be missing
  int world = 1;                             // workers of the run that wrote it
  // seen by all of them; gossip workers estimate it, and this is the mean of their estimates
  double samples = 0;
  bool whole() const { return static_cast<int>(files.size()) == world; }
  // Each worker has a state of its own there; otherwise all start from the mean.
  bool own_state(int workers) const { return whole() && workers == world; }
};
ResumePoint find_checkpoint(const std::filesystem::path&);

// If as many workers wrote a complete checkpoint: loads the state of this rank (with all-reduce
// that of rank 0, which all share). Otherwise: loads the mean of the saved models, with momentum 0,
// and begins the next epoch. IoError.
Continuation load_checkpoint(const ResumePoint&, int rank, int world, TrainState,
                             const ImageOrder& now);

}  // namespace gossamer::apps
