// The loss of one training batch: mixup or CutMix on the device, label smoothing, cross entropy.
#pragma once

#include <array>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/checkpoint.h"
#include "gossamer/data/augment/mixup.h"
#include "gossamer/nn/module.h"

namespace gossamer::apps {

class TrainingLoss {
 public:
  TrainingLoss(const Config&, int rank);
  // How this batch is mixed: the plan of mix_batch (6), the weight of an image's own label, and
  // that of its neighbour's. It follows (seed, rank, place in the data) alone, so a resumed run
  // mixes alike.
  using Numbers = std::array<float, 8>;
  Numbers draw(int height, int width, const Position&) const;
  // images: normalized [N, H, W, 3]; labels i32 [N]; mix: those numbers, f32 [8]; all on one
  // device.
  Tensor operator()(nn::Module& net, const Tensor& images, const Tensor& labels,
                    const Tensor& mix) const;

 private:
  data::MixOptions mix_;
  float smoothing_;
  std::uint64_t seed_, rank_;
};

}  // namespace gossamer::apps
