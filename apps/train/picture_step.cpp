// See picture_step.h.
#include "gossamer/apps/train/picture_step.h"

#include <algorithm>

#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/data/mix.h"
#include "gossamer/nn/train/classification.h"

namespace gossamer::apps {

TrainingLoss::TrainingLoss(const Config& c, int rank)
    : mix_{c.train.mixup, c.train.cutmix},
      smoothing_(static_cast<float>(c.optim.label_smoothing)),
      seed_(static_cast<std::uint64_t>(c.train.seed)),
      rank_(static_cast<std::uint64_t>(rank)) {}

TrainingLoss::Mix TrainingLoss::draw(int height, int width, const nn::Position& at) const {
  if (!mix_.on()) return {};
  Rng rng(data::mix(seed_, data::mix(static_cast<std::uint64_t>(at.epoch), rank_)),
          data::mix(static_cast<std::uint64_t>(at.step), 0x6d6978 /* "mix" */));
  const data::MixPlan plan = data::draw_mix(mix_, height, width, rng);
  Mix out{};
  std::ranges::copy(plan.plan, out.begin());
  const float own = static_cast<float>(plan.own);
  out[6] = own, out[7] = 1 - own;
  return out;
}

Tensor TrainingLoss::mixed(const Tensor& images, const Tensor& mix) const {
  return mix_.on() ? mix_batch(images, mix.slice(0, 6)) : images;
}

Tensor TrainingLoss::operator()(nn::Module& net, const Tensor& images, const Tensor& labels,
                                const Tensor& mix) const {
  const Tensor logits = net(mixed(images, mix));
  return mix_.on() ? nn::mixed_cross_entropy(logits, labels, mix.slice(6, 8), smoothing_)
                   : cross_entropy(logits, labels, {.label_smoothing = smoothing_});
}

nn::StepBatch step_batch(const data::Batch& b) {
  const Shape shape{b.count(), b.side()};
  if (!b.bytes.defined()) return {{b.images, b.labels}, {}, shape};
  return {{b.bytes, b.labels, b.pictures}, {b.room}, shape};
}

data::Batch picture_batch(const nn::StepBatch& b) {
  if (b.tensors.size() == 2) return {b.tensors[0], b.tensors[1]};
  data::Batch boxes;
  boxes.labels = b.tensors[1];
  boxes.bytes = b.tensors[0];
  boxes.pictures = b.tensors[2];
  boxes.room = b.room[0];
  boxes.size = b.shape[1];
  return boxes;
}

nn::DrawnBatch PictureStep::drawn(const data::Batch& batch, const nn::Position& at) const {
  const int side = static_cast<int>(batch.side());
  const TrainingLoss::Mix mix = loss_.draw(side, side, at);
  return {step_batch(batch), {mix.begin(), mix.end()}};
}

Tensor PictureStep::loss(nn::Module& net, const nn::StepBatch& in, const Tensor& numbers) const {
  const data::Batch batch = picture_batch(in);
  return loss_(net, prepare_(batch), batch.labels, numbers);
}

}  // namespace gossamer::apps
