// Checkpoints of a run in training: one file a worker, everything that one worker (or all-reduce)
// needs to go on as if nothing had happened; gossip has its models, but timing and progress are the
// new run's. (The averaged model at the end: nn/checkpoint.h.)
// runs/NAME/checkpoints/LABEL/rank-R.safetensors; memory layout, convolution weights are [out, h,
// w, in].
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

// Copies the state between two events, then writes it (atomic, fsynced) and removes the oldest
// beyond `keep` of this rank.
void save_checkpoint(const std::filesystem::path& run_folder, const std::string& label, int rank,
                     int world, TrainState, const Position&, const ImageOrder&, i64 keep);

// What --resume names: a run's folder (its newest whole checkpoint is taken) or one checkpoint.
// IoError says what is missing.
struct ResumePoint {
  std::filesystem::path run_folder, checkpoint;
  std::vector<std::filesystem::path> files;  // of ranks 0, 1 …; some may be missing
  int world = 1;                             // workers of the run that wrote it
  // seen by all of them; gossip workers estimate it, so the mean of what they believed
  double samples = 0;
  bool whole() const { return static_cast<int>(files.size()) == world; }
  // else all start from the mean
  bool own_state(int workers) const { return whole() && workers == world; }
};
ResumePoint find_checkpoint(const std::filesystem::path&);

// The number of workers that wrote a whole checkpoint: this rank's state (with all-reduce rank 0's,
// which is everybody's). Else the mean of the saved models with fresh momentum, next epoch.
Continuation load_checkpoint(const ResumePoint&, int rank, int world, TrainState,
                             const ImageOrder& now);

}  // namespace gossamer::apps
