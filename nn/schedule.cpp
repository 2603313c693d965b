// Learning-rate curves.
#include "gossamer/nn/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gossamer/core/error.h"
#include "gossamer/core/text/spelling.h"

namespace gossamer::nn {
namespace {

double mix(double from, double to, double share) { return from + (to - from) * share; }

void validate(const ScheduleOptions& o) {
  check<ConfigError>(std::isfinite(o.peak) && o.peak >= 0, "schedule: peak learning rate ", o.peak,
                     "; wanted at least 0");
  check<ConfigError>(o.warmup_from >= 0 && o.final >= 0, "schedule: warmup_from ", o.warmup_from,
                     ", final ", o.final, "; wanted at least 0");
  check<ConfigError>(o.total > 0, "schedule: total ", o.total, " samples; wanted more than 0");
  check<ConfigError>(o.warmup >= 0 && o.warmup <= o.total, "schedule: warm-up of ", o.warmup,
                     " samples in a run of ", o.total);
  check<ConfigError>(o.decay >= 0 && o.decay <= 1, "schedule: a decay over ", o.decay,
                     " of the run; wanted 0 to 1");
  for (std::size_t i = 0; i < o.milestones.size(); ++i)
    check<ConfigError>(o.milestones[i] > (i ? o.milestones[i - 1] : 0) && o.milestones[i] <= 1,
                       "schedule: milestone ", o.milestones[i],
                       "; milestones are ascending fractions of the run, in (0, 1]");
}

// A line from the peak to the final rate between two numbers of samples.
double fall(const ScheduleOptions& o, double from, double to, double samples) {
  const double share = to > from ? (samples - from) / (to - from) : 1;
  return mix(o.peak, o.final, std::clamp(share, 0.0, 1.0));
}

}  // namespace

const std::vector<std::string>& schedule_kinds() {
  static const std::vector<std::string> kinds{"constant",  "step", "cosine",      "linear",
                                              "one-cycle", "wsd",  "inverse-sqrt"};
  return kinds;
}

Schedule make_schedule(const ScheduleOptions& options) {
  validate(options);
  ScheduleOptions o = options;
  std::function<double(double)> after;  // by samples seen, once the warm-up is over
  if (o.kind == "constant") {
    after = [o](double) { return o.peak; };
  } else if (o.kind == "step") {
    after = [o](double samples) {
      double rate = o.peak;
      for (const double milestone : o.milestones)
        if (samples >= milestone * o.total) rate *= o.gamma;
      return rate;
    };
  } else if (o.kind == "cosine") {
    after = [o](double samples) {
      const double share =
          o.total > o.warmup ? std::min(1.0, (samples - o.warmup) / (o.total - o.warmup)) : 1.0;
      return mix(o.peak, o.final, 0.5 - 0.5 * std::cos(std::numbers::pi * share));
    };
  } else if (o.kind == "linear" || o.kind == "one-cycle") {
    // A cycle needs a rise: 30 % of it, as in Smith and Topin 2017 and in torch.
    if (o.kind == "one-cycle" && o.warmup == 0) o.warmup = 0.3 * o.total;
    after = [o](double samples) { return fall(o, o.warmup, o.total, samples); };
  } else if (o.kind == "wsd") {
    const double from = (1 - o.decay) * o.total;
    check<ConfigError>(from >= o.warmup, "schedule: wsd begins to fall after ", from,
                       " samples, in the warm-up of ", o.warmup);
    after = [o, from](double samples) {
      return o.decay > 0 ? fall(o, from, o.total, samples) : o.peak;
    };
  } else if (o.kind == "inverse-sqrt") {
    check<ConfigError>(o.warmup > 0,
                       "schedule: inverse-sqrt falls from the end of the warm-up; "
                       "wanted a warm-up of more than 0 samples");
    after = [o](double samples) { return o.peak * std::sqrt(o.warmup / samples); };
  } else {
    fail<ConfigError>("schedule: unknown kind \"", o.kind, "\"; known are ",
                      alternatives(schedule_kinds()));
  }
  return [o, after](double samples) {
    return samples < o.warmup ? mix(o.warmup_from, o.peak, samples / o.warmup) : after(samples);
  };
}

double linear_scaling(double base, int workers, int batch, int reference) {
  check<ConfigError>(workers > 0 && batch > 0 && reference > 0, "linear_scaling: ", workers,
                     " workers, batch ", batch, ", reference ", reference,
                     "; all must be positive");
  return base * workers * batch / reference;
}

}  // namespace gossamer::nn
