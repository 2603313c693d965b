// The loss of one training batch: mixup or CutMix on the device, label smoothing, cross entropy.
#pragma once

#include "gossamer/apps/checkpoint.h"
#include "gossamer/apps/config.h"
#include "gossamer/data/augment/mixup.h"
#include "gossamer/nn/module.h"

namespace gossamer::apps {

class TrainingLoss {
 public:
  TrainingLoss(const Config&, int rank);
  // images: normalized [N, H, W, 3]; labels i32 [N], on the same device. What is mixed follows (seed, rank, place in the data) alone,
  // so a resumed run mixes alike.
  Tensor operator()(nn::Module& net, const Tensor& images, const Tensor& labels, const Position&) const;

 private:
  data::MixOptions mix_;
  float smoothing_;
  std::uint64_t seed_, rank_;
};

}  // namespace gossamer::apps
