// The calls of text models (backend.h) as plain loops with sums in double: the reference backend's.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer::reference {

void layer_norm(const RowNorm&, const Tensor* add, Tensor* sum, Tensor& y);
void layer_norm_back(const RowNorm&, const Tensor& dy, bool accumulate, Tensor& dx,
                     const Tensor& d_scale, const Tensor& d_shift);
void attention(const Attention&, Tensor& y, const Tensor& log_sums);
void attention_back(const Attention&, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                    const PackedRows& dq, const PackedRows& dk, const PackedRows& dv);
void softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows&, Tensor& losses,
                  const Tensor& dz);

}  // namespace gossamer::reference
