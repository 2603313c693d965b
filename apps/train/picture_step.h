// A training step on pictures: its batches, and the loss of one.
#pragma once

#include <array>
#include <cstdint>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/pictures.h"
#include "gossamer/data/augment/mixup.h"
#include "gossamer/nn/module.h"
#include "gossamer/nn/train/step_inputs.h"

namespace gossamer::apps {

// The loss of one training batch: mixup or CutMix where the images are, label smoothing, cross
// entropy.
class TrainingLoss {
 public:
  TrainingLoss(const Config&, int rank);
  // How a batch is mixed: the plan of mix_batch (6 numbers), the weight of an image's own label,
  // and the weight of the label of the image before it. A function of seed, rank and position only,
  // so that a resumed run mixes the same way.
  using Mix = std::array<float, 8>;
  Mix draw(int height, int width, const nn::Position&) const;
  // images: normalized [N, H, W, 3]. Returns what the network is given of them.
  Tensor mixed(const Tensor& images, const Tensor& mix) const;
  // images: normalized [N, H, W, 3]; labels: i32 [N]; mix: those numbers, f32 [8]; all on one
  // device. Returns the mean loss, [].
  Tensor operator()(nn::Module& net, const Tensor& images, const Tensor& labels,
                    const Tensor& mix) const;

 private:
  data::MixOptions mix_;
  float smoothing_;
  std::uint64_t seed_, rank_;
};

// Pictures as a step takes them: { images or boxes' bytes, labels, of boxes the table }.
nn::StepBatch step_batch(const data::Batch&);
data::Batch picture_batch(const nn::StepBatch&);  // and back

class PictureStep {
 public:
  PictureStep(const Pictures& prepare, TrainingLoss loss) : prepare_(prepare), loss_(loss) {}
  nn::DrawnBatch drawn(const data::Batch&, const nn::Position&) const;
  Tensor loss(nn::Module&, const nn::StepBatch&, const Tensor& numbers) const;
  const TrainingLoss& loss_of() const { return loss_; }

 private:
  const Pictures& prepare_;
  TrainingLoss loss_;
};

}  // namespace gossamer::apps
