// How the next id is chosen from the logits of a language model. Pure functions: the caller draws
// the random numbers.
// Threads: any.
#pragma once

#include <span>

#include "gossamer/core/dtype.h"

namespace gossamer::models {

struct SamplingOptions {
  double temperature = 1;  // logits are divided by it; 0: the id with the largest logit
  i64 top_k = 0;           // only the k largest logits, and those equal to the k-th; 0: all
  // What is left is cut to the most probable ids whose probabilities sum to at least this, and
  // those as probable as the last (nucleus sampling, Holtzman et al., ICLR 2020); 1: all.
  double top_p = 1;
};
// ConfigError names the option and its range.
void check_sampling(const SamplingOptions&);

// logits: [V], finite, or -infinity for ids that cannot come. uniform: in [0, 1). The order of the
// options is Hugging Face's: temperature, top-k, top-p. choose_ids() of core/ops/decode.h does the
// same on a device. Error: a logit is NaN or none is finite.
i64 sample(std::span<const float> logits, const SamplingOptions&, double uniform);
// The id of the largest logit; of equal ones the lowest.
i64 largest(std::span<const float> logits);

}  // namespace gossamer::models
