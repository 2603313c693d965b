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
  std::string kind = "cosine";       // one of schedule_kinds()
  double peak = 0.1;                 // learning rate after warm-up
  double total = 1;                  // samples of the whole run
  double warmup = 0;                 // samples of the linear warm-up
  double warmup_from = 0;            // learning rate at its start
  double final = 0;                  // cosine, linear, one-cycle, wsd: learning rate at the end
  std::vector<double> milestones{};  // step: fractions of total, ascending
  double gamma = 0.1;                // step: factor at each milestone
  double decay = 0.1;                // wsd: the fall at the end, as a fraction of total
};
// constant, step, cosine, linear, one-cycle, wsd (warm-up, stable, decay: Hu et al. 2024,
// arXiv 2404.06395), inverse-sqrt.
const std::vector<std::string>& schedule_kinds();
// ConfigError names an unknown kind and lists the known ones; or the warm-up and the decay of wsd
// overlap.
Schedule make_schedule(const ScheduleOptions&);
// Goyal et al. 2017: base * workers * batch / reference.
double linear_scaling(double base, int workers, int batch, int reference = 256);

}  // namespace gossamer::nn
