// What a run has left in its folder, read again: of finished, stopped, failed and running runs.
#pragma once

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/apps/report/class_report.h"

namespace gossamer::apps {

// One `step` line of a worker. A number that the line lacks is NaN.
struct StepRow {
  double images = 0, epoch = 0;  // seen by all workers
  double time = 0;               // seconds of the run; pauses between stop and resume do not count
  double gradients = 0;          // of this worker since the run was started or resumed
  double loss = 0, learning_rate = 0, consensus = 0;
  double target = NAN;  // of consensus control; NaN or 0: none
  // Since the worker's line before: images a second of all workers, and the parts of the time in
  // which it waited for data and for communication.
  double images_per_s = 0, data_wait = 0, exposed = 0;
};

// One `eval` line: of a worker's own model, or of the mean of all at the end (rank -1).
struct EvalRow {
  int rank = 0;
  double images = 0, epoch = 0, time = 0;
  double loss = 0;
  // NaN: of another task
  double top1 = 0, top5 = 0;  // in percent
  double perplexity = 0, bits_per_byte = 0, bleu = 0;
};

// What the evaluations of a task say beside the loss.
struct ScoreColumn {
  const char *name, *title;  // in summary.json and log.csv; on pages
  double EvalRow::*value;
  double factor;       // from summary.json to the value
  const char* format;  // of fmt
};
// task: as in the configuration.
std::vector<ScoreColumn> score_columns(const std::string& task);

// One `exchange` line of a worker: its exchanges since the line before, or (run.log_exchanges) a
// single one.
struct ExchangeRow {
  double time = 0;                     // seconds of the run
  double staleness = 0, distance = 0;  // means; NaN: not written
  double count = 0, failed = 0;
  std::map<int, double> with;  // peer -> exchanges; empty: not written
};

struct Mark {
  double time = 0;         // seconds of the run
  int worker = 0;          // whom it is about
  std::string kind, what;  // kind: fault | joined | refused | inject
  std::vector<int> by;     // the workers that wrote it, within five seconds
};

struct RunRecord {
  std::string name;
  // "finished", "stopped by SIGTERM after 1234 images", "failed: …", or that no end was written
  std::string outcome;
  bool ended = false, finished = false;  // ended: stopped, failed or finished
  nlohmann::json summary;                // null if there is none
  nlohmann::json launch;  // the last `launch` line: command, host, processor, versions; or null
  std::string task = "pictures";                            // as in the configuration
  std::string unit = "images";                              // what samples are: of text, tokens
  std::vector<std::pair<std::string, std::string>> config;  // "train.batch" -> "32", as in the file
  std::string config_text;
  std::map<int, std::vector<StepRow>> steps;
  std::map<int, std::vector<ExchangeRow>> exchanges;
  std::vector<EvalRow> evals, ema_evals;                   // ema: of moving averages (train.ema)
  std::vector<std::pair<double, double>> exact_consensus;  // epoch, distance
  // When each worker was alive, as [from, to] in seconds of the run: from its start until another
  // worker found it dead, or to the end of the run.
  std::map<int, std::vector<std::pair<double, double>>> alive;
  std::vector<Mark> marks;
  ClassReport classes;  // of the final evaluation
  double seconds = 0;   // of the whole run
};

// IoError if the folder holds no log.jsonl. Lines cut short by a crash are passed over; of steps
// that a resumed run has repeated, the later ones count.
RunRecord read_run(const std::filesystem::path& folder);

// The evaluations of the workers' own models: one row for each, the mean over the workers.
std::vector<EvalRow> workers_evaluations(const std::vector<EvalRow>&);

// For runs that are compared: a worker of a busy machine seems dead only after so long.
inline constexpr const char* kPatient = "dist.dead_after_s=60";
// Of a run that has ended: how many of its workers it has lost on the way. Its result is then one
// of fewer, as happens on a busy machine, where a worker may seem dead. 0: none, or no
// summary.json.
i64 lost_workers(const std::filesystem::path& folder);
// Renames the folder of such a run to FOLDER.lost, so that it can be made again.
void set_aside(const std::filesystem::path& folder);
// What is said of it: "…, so it counts for nothing …".
std::string lost_workers_text(const std::filesystem::path& folder);

}  // namespace gossamer::apps
