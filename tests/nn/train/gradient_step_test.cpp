// A gradient of several batches that is left, and one whose loss throws. Graphs, devices and
// pictures: tests/apps/gradient_step_test.cpp.
#include "gossamer/nn/train/gradient_step.h"

#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/train/classification.h"

namespace gossamer::nn {
namespace {

struct Net : Module {
  BatchNorm& norm = add("norm", BatchNorm(2));
  Linear& head = add("head", Linear(2, 3));
  Tensor forward(const Tensor& x) override { return head(norm(x)); }
};

DrawnBatch batch(float first) {
  const Tensor x = Tensor::from(std::vector<float>{first, 1, 2, 3, 4, 5, 6, 8}, {4, 2}),
               labels = Tensor::from(std::vector<std::int32_t>{0, 1, 2, 1}, {4});
  return {{{x, labels}, {}, x.shape()}, {}};
}

struct Training {
  explicit Training(int batches)
      : params(net.parameters(), net.buffers()),
        step({.net = net,
              .params = params,
              .loss_of =
                  [this](const StepBatch& b, const Tensor&) {
                    check<DataError>(!fails, "this batch is bad");
                    return cross_entropy(net(b.tensors[0]), b.tensors[1]);
                  },
              .batches = batches}) {
    net.train();
  }
  std::vector<float> buffers() const {
    const auto all = params.buffers().span<float>();
    std::vector<float> out(all.begin(), all.end());
    out.push_back(static_cast<float>(*net.norm.buffers()[2].tensor.as<i64>()));
    return out;
  }
  Net net;
  FlatParams params;
  bool fails = false;
  GradientStep step;
};

TEST(GradientStep, AnAbandonedGradientLeavesTheNetworkAsItWas) {
  Training t(3);
  for (int k = 0; k < 3; ++k) {  // a whole one
    t.step.compute(batch(static_cast<float>(k)));
    t.step.step_ends();
  }
  const std::vector<float> before = t.buffers();
  for (int k = 0; k < 2; ++k) {
    EXPECT_FALSE(t.step.compute(batch(9)));
    t.step.step_ends();
  }
  EXPECT_NE(t.buffers(), before);
  t.step.abandon();
  EXPECT_EQ(t.buffers(), before);
  EXPECT_FALSE(t.step.begun());
  t.step.abandon();  // nothing is begun
  EXPECT_EQ(t.buffers(), before);
}

TEST(GradientStep, AfterALossThatThrowsTheNextBatchBeginsAnother) {
  Training t(1), other(1);
  Tensor(other.params.values()).copy_from(t.params.values());
  other.params.refresh();
  t.fails = true;
  for (int k = 0; k < 3; ++k) EXPECT_THROW(t.step.compute(batch(0)), DataError);
  t.fails = false;
  for (Training* each : {&t, &other}) {
    EXPECT_TRUE(each->step.compute(batch(7)));
    each->step.step_ends();
  }
  EXPECT_EQ(t.step.losses().take(), other.step.losses().take());
  const auto a = t.params.grads().span<float>(), b = other.params.grads().span<float>();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
}

TEST(ClassificationScores, CountTheLabelsThatAreFirstAndNearlyFirst) {
  const Tensor logits =
      Tensor::from(std::vector<float>{3, 2, 1, /**/ 3, 2, 1, /**/ 3, 2, 1, /**/ 5, 5, 1}, {4, 3});
  const Tensor labels = Tensor::from(std::vector<std::int32_t>{0, 1, 2, 0}, {4});
  const Tensor scores = classification_scores(logits, labels, 2);
  EXPECT_EQ(scores.as<float>()[0], cross_entropy(logits, labels).item());
  EXPECT_EQ(scores.as<float>()[1], 1) << "the last one shares its place";
  EXPECT_EQ(scores.as<float>()[2], 3);
}

}  // namespace
}  // namespace gossamer::nn
