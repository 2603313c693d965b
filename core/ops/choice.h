// How an id is chosen from a row of logits.
// Threads: any.
#pragma once

#include "gossamer/core/dtype.h"

namespace gossamer {

// The order is Hugging Face's: temperature, top-k, top-p.
struct Choice {
  // Logits are divided by it; 0: the id with the largest logit, of equal ones the lowest.
  double temperature = 1;
  i64 top_k = 0;  // only the k largest logits, and those equal to the k-th; 0: all
  // What is left is cut to the most probable ids whose probabilities sum to at least this, and
  // those as probable as the last (nucleus sampling, Holtzman et al., ICLR 2020); 1: all.
  double top_p = 1;
  i64 known = 0;  // only the first so many ids; 0: all
  bool operator==(const Choice&) const = default;
};

}  // namespace gossamer
