// `gossamer simulate … --events FILE`: one run, event by event.
#pragma once

#include <string>

#include "gossamer/core/text/json.h"
#include "gossamer/dist/simulation/simulator.h"

namespace gossamer::apps {

// ConfigError: the file would be too large.
void check_events(const dist::SimulationPlan&);

// Repeats the run of plan.options.seed until `time` and writes it as JSON lines: first `head` with
// edges, eta and alpha_tilde; then x of each worker at the start; then the events as
// dist::SimulatedEvent describes them, all numbers in full precision. Throws IoError.
void write_events(const std::string& file, JsonObject head, dist::SimulationPlan,
                  const dist::Problem*, double time);

}  // namespace gossamer::apps
