// Learning-rate schedules: pure functions of the number of samples (or tokens) seen by all workers
// together. Nothing to save or restore.
// Threads: any.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace gossamer::nn {

using Schedule = std::function<double(double samples_seen)>;

struct ScheduleOptions {
  std::string kind = "cosine";       // constant | step | cosine | one-cycle | inverse-sqrt
  double peak = 0.1;                 // learning rate after warm-up
  double total = 1;                  // samples of the whole run
  double warmup = 0;                 // samples of the linear warm-up
  double warmup_from = 0;            // learning rate at its start
  double final = 0;                  // cosine, one-cycle: learning rate at the end
  std::vector<double> milestones{};  // step: fractions of total, ascending
  double gamma = 0.1;                // step: factor at each milestone
};
// ConfigError names an unknown kind and lists the known ones.
Schedule make_schedule(const ScheduleOptions&);
// Goyal et al. 2017: base * workers * batch / reference.
double linear_scaling(double base, int workers, int batch, int reference = 256);

}  // namespace gossamer::nn
