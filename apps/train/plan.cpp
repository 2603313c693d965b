// See plan.h.
#include "gossamer/apps/train/plan.h"

#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/options.h"

namespace gossamer::apps {

Plan::Plan(Config given, const WorkerOptions& how, const dist::LaunchInfo& where,
           const std::optional<ResumePoint>& resume)
    : config(std::move(given)),
      options(how),
      place(dist::with_token(where, config.dist.open)),
      device(worker_device(config, where)) {
  if (!resume) return;
  start_samples = resume->samples;
  earlier = resume->figures;
  resumed_from = resume->run_folder;
}

std::vector<std::string> Plan::set_epoch(double samples) {
  epoch = samples;
  std::vector<std::string> notes;
  schedule = run_schedule(config, place.size, epoch, notes);
  total_samples = options.dry_run ? start_samples + options.dry_steps * samples_of_a_step()
                                  : run_samples(config, place.size, epoch);
  return notes;
}

double Plan::samples_of_a_step() const {
  return static_cast<double>(config.step_samples(place.size));
}

double Plan::in_samples(const Amount& amount) const {
  return samples_of(amount, run_units(config, place.size, epoch));
}

double Plan::part(double samples) const {
  const double begin = options.dry_run ? start_samples : 0, span = total_samples - begin;
  return span > 0 ? (samples - begin) / span : 1;
}

i64 Plan::board_step(double samples) const {
  return static_cast<i64>(samples * place.size / samples_of_a_step());
}

std::string Plan::run_id() const {
  if (!several()) return std::to_string(getpid());
  return dist::run_number(place);
}

}  // namespace gossamer::apps
