// The loss with mixup, CutMix and label smoothing: that of soft targets, its gradient too, and
// nothing that a resume would change.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/apps/train/loop.h"
#include "gossamer/apps/train/picture_step.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/data/mix.h"

namespace gossamer::apps {
namespace {

// One matrix: logits = pixels · w, so that the gradient can be written down.
class Linear : public nn::Module {
 public:
  Linear() : w(Tensor::empty({2 * 2 * 3, 4})) {
    Rng rng(3);
    for (float& v : w.span<float>()) v = rng.normal();
    w.requires_grad();
  }
  Tensor forward(const Tensor& x) override { return matmul(x.reshape({x.shape(0), 12}), w); }
  Tensor w;
};

Tensor some_images() {
  Tensor images = Tensor::empty({5, 2, 2, 3});
  Rng rng(1);
  for (float& v : images.span<float>()) v = rng.normal();
  return images;
}

// Soft targets by hand, in double: the mean over rows of -sum_k q_k log p_k and its gradient by w.
struct Wanted {
  double loss = 0;
  std::vector<double> gradient;
};
Wanted by_hand(const Tensor& images, const std::vector<std::int32_t>& labels,
               const data::MixPlan& plan, double smoothing, const Tensor& w) {
  const auto x = images.span<float>(), weights = w.span<float>();
  Wanted out;
  out.gradient.assign(48, 0);
  for (std::size_t n = 0; n < 5; ++n) {
    const std::size_t before = (n + 4) % 5;
    double pixel[12], z[4] = {}, q[4];
    for (std::size_t i = 0; i < 12; ++i) {
      const auto row = static_cast<float>(i / 6), column = static_cast<float>(i / 3 % 2);
      const bool inside = row >= plan.plan[2] && row < plan.plan[3] && column >= plan.plan[4] &&
                          column < plan.plan[5];
      const double a = plan.plan[inside ? 1 : 0];
      pixel[i] = a * static_cast<double>(x[n * 12 + i]) +
                 (1 - a) * static_cast<double>(x[before * 12 + i]);
      for (std::size_t k = 0; k < 4; ++k)
        z[k] += pixel[i] * static_cast<double>(weights[i * 4 + k]);
    }
    double sum = 0;
    for (const double v : z) sum += std::exp(v);
    for (std::size_t k = 0; k < 4; ++k) {
      q[k] = smoothing / 4 +
             (1 - smoothing) * (plan.own * (labels[n] == static_cast<int>(k)) +
                                (1 - plan.own) * (labels[before] == static_cast<int>(k)));
      out.loss -= q[k] * (z[k] - std::log(sum)) / 5;
      for (std::size_t i = 0; i < 12; ++i)
        out.gradient[i * 4 + k] += pixel[i] * (std::exp(z[k]) / sum - q[k]) / 5;
    }
  }
  return out;
}

TEST(TrainingLoss, IsCrossEntropyWithMixedAndSmoothedTargets) {
  const std::vector<std::int32_t> labels{0, 3, 1, 1, 2};
  for (const auto& [mixup, cutmix, smoothing] :
       {std::tuple{0.0, 0.0, 0.1}, std::tuple{0.4, 0.0, 0.0}, std::tuple{0.0, 1.0, 0.1},
        std::tuple{0.4, 1.0, 0.1}}) {
    Config c;
    c.train.mixup = mixup;
    c.train.cutmix = cutmix;
    c.optim.label_smoothing = smoothing;
    c.train.seed = 8;
    const TrainingLoss loss_of(c, 2);
    for (i64 step = 0; step < 12; ++step) {
      Linear net;
      const Tensor images = some_images();
      const Tensor loss = loss_of(net, images, Tensor::from(labels, {5}),
                                  Tensor::from(loss_of.draw(2, 2, {0, 1, step}), {8}));
      loss.backward();
      Rng rng(data::mix(8, data::mix(1, 2)), data::mix(static_cast<std::uint64_t>(step), 0x6d6978));
      const Wanted wanted =
          by_hand(images, labels, data::draw_mix({mixup, cutmix}, 2, 2, rng), smoothing, net.w);
      ASSERT_NEAR(loss.item(), wanted.loss, 1e-5 * std::max(1.0, wanted.loss));
      const Tensor g = net.w.grad();
      for (std::size_t i = 0; i < 48; ++i)
        ASSERT_NEAR(g.span<float>()[i], wanted.gradient[i], 2e-5);
    }
  }
}

TEST(TrainingLoss, MixesByThePlaceInTheDataAlone) {
  Config c;
  c.train.mixup = 0.3;
  const Tensor images = some_images(),
               labels = Tensor::from(std::vector<std::int32_t>{0, 3, 1, 1, 2}, {5});
  Linear net;
  const auto at = [&](i64 epoch, i64 step, int rank) {
    const TrainingLoss loss_of(c, rank);
    return loss_of(net, images, labels,
                   Tensor::from(loss_of.draw(2, 2, {99.0 * static_cast<double>(step), epoch, step}),
                                {8}))
        .item();
  };
  EXPECT_EQ(at(2, 7, 0), at(2, 7, 0));
  EXPECT_NE(at(2, 7, 0), at(2, 8, 0));
  EXPECT_NE(at(2, 7, 0), at(3, 7, 0));
  EXPECT_NE(at(2, 7, 0), at(2, 7, 1));
}

}  // namespace
}  // namespace gossamer::apps
