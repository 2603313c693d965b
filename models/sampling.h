// How the next id is chosen from the logits of a language model. Pure functions: the caller draws
// the random numbers.
// Threads: any.
#pragma once

#include <cstdint>
#include <span>

#include "gossamer/core/dtype.h"
#include "gossamer/core/ops/choice.h"

namespace gossamer::models {

// ConfigError names the option and its range.
void check_choice(const Choice&);

// logits: [V], finite, or -infinity for ids that cannot come. uniform: in [0, 1). choose_ids() of
// core/ops/decode.h does the same on a device. Error: a logit is NaN or none is finite.
// seen: ids that the text has, for the repetition penalty.
i64 sample(std::span<const float> logits, const Choice&, double uniform,
           std::span<const std::int32_t> seen = {});
// The id of the largest logit; of equal ones the lowest.
i64 largest(std::span<const float> logits);

}  // namespace gossamer::models
