// How an id is chosen from a row of logits.
// Threads: any.
#pragma once

#include "gossamer/core/dtype.h"

namespace gossamer {

// The order is Hugging Face's: repetition penalty, temperature, top-k, top-p, min-p.
struct Choice {
  // Logits are divided by it; 0: the id with the largest logit, of equal ones the lowest.
  double temperature = 1;
  i64 top_k = 0;  // only the k largest logits, and those equal to the k-th; 0: all
  // What is left is cut to the most probable ids whose probabilities sum to at least this, and
  // those as probable as the last (nucleus sampling, Holtzman et al., ICLR 2020); 1: all.
  double top_p = 1;
  // Only ids that are at least so many times as probable as the likeliest (Nguyen et al. 2024,
  // arXiv 2407.01082); 0: all.
  double min_p = 0;
  // The logit of an id that the text has already, its prompt counted, is divided by it where it is
  // positive, and multiplied by it where not (Keskar et al. 2019, arXiv 1909.05858, as Hugging Face
  // has it); 1: nothing changes.
  double repetition_penalty = 1;
  i64 known = 0;  // only the first so many ids; 0: all
  bool operator==(const Choice&) const = default;
};

}  // namespace gossamer
