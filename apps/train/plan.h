// What one worker of a run is going to do: what was said, where it is, and how much there is to do.
// It is constant once the worker is set up.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/resume_point.h"
#include "gossamer/apps/train/run_figures.h"
#include "gossamer/core/device.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/nn/schedule.h"

namespace gossamer::apps {

// What is said at the start and in the summary of such a run.
constexpr const char* kOpenText =
    "this run has no secret (dist.open=true): anybody who reaches a worker's port can join it, "
    "take "
    "its model and ruin it";

constexpr const char* kClearText =
    "what the workers say to each other is not encrypted (dist.tls=off): whoever is on the network "
    "between them can read the model and change it";

struct WorkerOptions {
  bool dry_run = false;  // a few steps; nothing is written
  bool json = false;     // the summary goes to stdout as JSON, all other lines to stderr
  int dry_steps = 20;    // of a dry run
};

struct Plan {
  Plan(Config, const WorkerOptions&, const dist::LaunchInfo&, const std::optional<ResumePoint>&);
  // When the data are open: sets what follows from the samples of an epoch. Returns notes.
  std::vector<std::string> set_epoch(double samples);

  const dist::MethodTraits& method() const { return dist::method_traits(config.train.method); }
  // Whether workers exchange their models with neighbours.
  bool exchanges() const { return several() && !method().sums_gradients; }
  // Whether this is a group: of several workers, or of one that others may join.
  bool several() const { return place.all_places() > 1; }
  // Whether this worker came when the run had begun, into a place that was free.
  bool joined() const { return place.rank >= place.size; }
  double samples_of_a_step() const;        // of all workers
  double in_samples(const Amount&) const;  // of the run's keys: epochs, steps …
  // The part of the run that is over after so many samples; a dry run has all of it.
  double part(double samples) const;
  // The step in TensorBoard: the number of gradients of all workers.
  i64 board_step(double samples) const;
  bool encrypted() const { return several() && dist::encrypts(place, config.dist.tls); }
  // Tells this run from others of its name; the same on all workers.
  std::string run_id() const;

  const Config config;
  const WorkerOptions options;
  const dist::LaunchInfo place;
  const Device device;                   // where this worker computes
  RunFigures earlier{};                  // of the legs before this one
  std::filesystem::path resumed_from{};  // the run's folder, or empty
  // Samples of all workers: in an epoch, before this leg, and at the end of the run.
  double epoch = 1, start_samples = 0, total_samples = 0;
  nn::Schedule schedule{};
};

}  // namespace gossamer::apps
