// Checkpoints of a run: one file for each worker, runs/NAME/checkpoints/LABEL/rank-R.safetensors,
// with all its state (nn/train/train_state.h). One worker alone, or all-reduce, continues exactly.
// With gossip the models are exact, while timing and estimates of progress begin anew.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/resume_point.h"
#include "gossamer/apps/train/run_figures.h"
#include "gossamer/core/flat.h"
#include "gossamer/dist/method.h"
#include "gossamer/nn/train/train_state.h"

namespace gossamer::apps {

// What the file of a worker says about the run so far.
struct FiguresSoFar {
  RunFigures earlier{}, leg{};  // of all workers before this leg; of this worker in it
  std::vector<int> alive{};     // the workers that write this checkpoint; empty: all
  std::string patience{};       // Patience::text()
  std::map<std::string, std::string> model{};  // TaskModel::header()
};

// The state of a worker between two events, in memory of its own.
struct CheckpointCopy {
  int rank = 0;
  nn::TrainSnapshot state;
};
CheckpointCopy copy_state(int rank, int world, const nn::TrainState&, dist::Method&,
                          const nn::Position&, const data::SampleOrder&, const FiguresSoFar& = {});
// Writes it (atomically, fsynced); then removes checkpoints that are no longer needed. If it cannot
// be written, it makes room first, then throws IoError, and leaves no empty folder. Error: values
// that are not finite; nothing is written or removed. Any thread.
void write_checkpoint(const std::filesystem::path& run_folder, const std::string& label,
                      const CheckpointCopy&, i64 keep);

// Removes files of checkpoints, but never the newest whole checkpoint nor, if none is whole, the
// newest of all. With `keep` whole ones, all that is older; else what this rank has beyond the
// newest `keep`. Each rank cares for its own files, so none needs to know how far the others are.
// What is being written has another name until it is whole, and is never touched. keep = 0 makes
// room. kAllRanks: when no worker writes any more.
constexpr int kAllRanks = -1;
void prune_checkpoints(const std::filesystem::path& run_folder, int rank, i64 keep);
// Removes what processes that were killed have left half written. Before any worker writes.
void remove_half_written(const std::filesystem::path& run_folder);

// Whether so many workers go on from a state that was saved: as many wrote it, or all had the same.
bool has_state_for(const ResumePoint&, int workers, const dist::MethodTraits&);

// If it has: loads the state of this rank (with all-reduce that of the first, which all share). If
// this rank's file is damaged or missing: the mean of the other models and of their methods' state,
// and all else, such as momentum, of the first of them. Otherwise loads the mean of the saved
// models, with momentum 0 and an EMA that starts there. Another number of workers begins the next
// epoch, unless all deal out one order (train.global_batch). of_method: what Method::state() names
// (MethodOptions::restore). IoError.
struct Loaded {
  nn::Position at;
  std::optional<data::SampleOrder> order;  // in which the samples came; none: it begins an epoch
  bool epoch_is_left = false;              // whose rest nobody reads
};
// Where a common order stood (CommonOrder), as all files of the checkpoint say it together;
// none: it was not dealt out. IoError.
std::optional<data::Saved> common_place(const ResumePoint&);
Loaded load_checkpoint(const ResumePoint&, int rank, int world, const nn::TrainState&,
                       const dist::MethodTraits&, const std::vector<NamedTensor>& of_method);

// What is frozen, which is the same in all files. IoError.
void load_frozen(const ResumePoint&, FlatParams&);

}  // namespace gossamer::apps
