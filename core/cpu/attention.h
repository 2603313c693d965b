// Attention on the CPU: small products per head and block of queries, whose scores stay in the
// caches; formulas in backend.h.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer::cpu {

void attention(const Attention&, Tensor& y, const Tensor& log_sums);
void attention_back(const Attention&, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                    const PackedRows& dq, const PackedRows& dk, const PackedRows& dv);

}  // namespace gossamer::cpu
