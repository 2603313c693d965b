// The checkpoints that a run has, and the one that --resume goes on from: the newest that is whole.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/apps/train/run_figures.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {

// One checkpoint: the folder runs/NAME/checkpoints/LABEL with a file of each worker.
struct ResumePoint {
  std::filesystem::path run_folder, checkpoint;
  std::vector<std::filesystem::path> files;  // of ranks 0, 1 …; some may be missing
  std::vector<int> ranks;                    // of `files`
  std::vector<int> damaged_ranks;            // whose file is there, but damaged
  int world = 1;                             // workers of the run that wrote it
  int missing = 0;                           // files that workers alive then have not written
  // seen by all of them; gossip workers estimate it, and this is the mean of their estimates
  double samples = 0;
  RunFigures figures;                    // of all legs that led to it
  std::string defect;                    // why it is not whole, or empty
  std::vector<std::string> passed_over;  // newer checkpoints that are not whole, with the reason
  // Every worker that was alive has written its file, and none is damaged.
  bool whole() const { return can_be_mended() && damaged_ranks.empty(); }
  // The same, but some files are damaged.
  bool can_be_mended() const { return !files.empty() && missing == 0; }
  // As many workers wrote it, so each goes on from its own state, or takes that of others if it has
  // no file that is whole; otherwise all start from the mean.
  bool own_state(int workers) const { return !files.empty() && workers == world; }
  const std::filesystem::path* file_of(int rank) const;  // nullptr: it has none that is whole
};

// Whether a path is the file of one worker, by its name; or the folder of a checkpoint, by such
// files or by where it lies.
bool is_checkpoint_file(const std::filesystem::path&);
bool is_checkpoint_folder(const std::filesystem::path&);
// The checkpoint in a folder. If files of several runs or legs are mixed there, it is that of the
// file with the most samples: its leg, and its number of workers.
ResumePoint checkpoint_in(const std::filesystem::path& folder);
// The checkpoints of a run's folder, the newest first; those without a readable file are last. Only
// headers are read. One that the folder could not take is found through the link of that name.
constexpr const char* kElsewhere = "elsewhere";
std::vector<ResumePoint> list_checkpoints(const std::filesystem::path& run_folder);
// Names in the run's folder of what a run that goes on from `point` does not continue: checkpoints
// of more samples, and those that cannot be read.
std::vector<std::string> checkpoints_after(const std::filesystem::path& run_folder,
                                           const ResumePoint& point);

// Who looks for a checkpoint: a worker reads its own file, and the others' if that is damaged or if
// another number of workers wrote them; the first process reads all.
struct Reader {
  int rank = -1, workers = 0;  // -1: the first process
};
// A run's folder that has none which can be read.
struct NoCheckpoint : IoError {
  NoCheckpoint(std::string why_, const std::string& advice)
      : IoError("--resume " + why_ + "; " + advice), why(std::move(why_)) {}
  std::string why;  // the folder, and what is there
};
// The checkpoint that --resume names: the newest of a run's folder that is whole or can be mended,
// or the newest of all if none is; or one folder of a checkpoint. IoError, NoCheckpoint. A folder
// that is named itself and in which all is damaged is refused; the newest checkpoint of the run
// that can be used is named.
ResumePoint find_checkpoint(const std::filesystem::path&, const Reader& = {});

// "rank-R.safetensors"
std::string checkpoint_file(int rank);
// A number in the header of such a file. IoError if there is none.
double checkpoint_number(const std::map<std::string, std::string>& metadata, const std::string& key,
                         const std::filesystem::path&);

}  // namespace gossamer::apps
