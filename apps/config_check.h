// Whether a run can do what its configuration says. What the keys mean stands in apps/train.
#pragma once

#include "gossamer/apps/config.h"

namespace gossamer::apps {

// Names and ranges of all keys, and what depends on the number of workers. per_machine: workers on
// each machine, the nodes of graph aer; 0: not known yet. ConfigError names the key, its place and
// what it must be.
void validate(const Config&, int workers, int per_machine = 0);

}  // namespace gossamer::apps
