// See training_loss.h.
#include "gossamer/apps/train/training_loss.h"

#include <algorithm>

#include "gossamer/core/ops.h"
#include "gossamer/data/mix.h"

namespace gossamer::apps {
namespace {

// The label of the image before: what mix_batch blends in.
Tensor neighbours(const Tensor& labels) {
  const i64 n = labels.shape(0);
  Tensor out = Tensor::empty(labels.shape(), labels.dtype(), labels.device());
  out.slice(0, 1).copy_from(labels.slice(n - 1, n));
  if (n > 1) out.slice(1, n).copy_from(labels.slice(0, n - 1));
  return out;
}

}  // namespace

TrainingLoss::TrainingLoss(const Config& c, int rank)
    : mix_{c.train.mixup, c.train.cutmix},
      smoothing_(static_cast<float>(c.optim.label_smoothing)),
      seed_(static_cast<std::uint64_t>(c.train.seed)),
      rank_(static_cast<std::uint64_t>(rank)) {}

TrainingLoss::Numbers TrainingLoss::draw(int height, int width, const Position& at) const {
  if (!mix_.on()) return {};
  Rng rng(data::mix(seed_, data::mix(static_cast<std::uint64_t>(at.epoch), rank_)),
          data::mix(static_cast<std::uint64_t>(at.step), 0x6d6978 /* "mix" */));
  const data::MixPlan plan = data::draw_mix(mix_, height, width, rng);
  Numbers out{};
  std::ranges::copy(plan.plan, out.begin());
  const float own = static_cast<float>(plan.own);
  out[6] = own, out[7] = 1 - own;
  return out;
}

Tensor TrainingLoss::operator()(nn::Module& net, const Tensor& images, const Tensor& labels,
                                const Tensor& mix) const {
  const CrossEntropyOptions options{.label_smoothing = smoothing_};
  if (!mix_.on()) return cross_entropy(net(images), labels, options);
  const Tensor logits = net(mix_batch(images, mix.slice(0, 6)));
  // Cross entropy is linear in its target, so two of them are exactly the one with mixed labels.
  return add(mul(cross_entropy(logits, labels, options), mix.slice(6, 7)),
             mul(cross_entropy(logits, neighbours(labels), options), mix.slice(7, 8)));
}

}  // namespace gossamer::apps
