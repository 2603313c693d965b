// How the next id is chosen from the logits of a language model. Pure functions: the caller draws
// the random numbers.
// Threads: any.
#pragma once

#include <span>

#include "gossamer/core/dtype.h"
#include "gossamer/core/ops/choice.h"

namespace gossamer::models {

// ConfigError names the option and its range.
void check_choice(const Choice&);

// logits: [V], finite, or -infinity for ids that cannot come. uniform: in [0, 1). choose_ids() of
// core/ops/decode.h does the same on a device. Error: a logit is NaN or none is finite.
i64 sample(std::span<const float> logits, const Choice&, double uniform);
// The id of the largest logit; of equal ones the lowest.
i64 largest(std::span<const float> logits);

}  // namespace gossamer::models
