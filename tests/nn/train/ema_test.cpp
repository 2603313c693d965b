// The moving average of a model: its numbers, and its state for checkpoints.
#include "gossamer/nn/train/ema.h"

#include <cmath>

#include <gmock/gmock.h>

namespace gossamer::nn {
namespace {

struct OneBlock {
  Tensor weight = Tensor::full({4, 2}, 1.0f), mean = Tensor::full({3}, 10.0f);
  FlatParams params{{{"weight", weight}}, {{"mean", mean}}};
  void set(float w, float m) {
    Tensor values = params.values(), buffers = params.buffers();
    for (float& v : values.span<float>()) v = w;
    for (float& v : buffers.span<float>()) v = m;
    params.refresh();
  }
  float value() const { return params.values().span<float>()[0]; }
  float buffer() const { return params.buffers().span<float>()[0]; }
};

TEST(EmaDecay, IsThatOfTimm) {
  // ModelEmaV3(decay=0.9999, use_warmup=True).get_decay(step) of timm 1.0
  EXPECT_EQ(Ema::decay_at(0.9999, 1), 0);
  EXPECT_NEAR(Ema::decay_at(0.9999, 2), 0.37003947505256340, 1e-12);
  EXPECT_NEAR(Ema::decay_at(0.9999, 10), 0.78455653099681160, 1e-12);
  EXPECT_NEAR(Ema::decay_at(0.9999, 1000), 0.99, 1e-12);
  EXPECT_EQ(Ema::decay_at(0.9, 1000), 0.9);
}

TEST(EmaOf, ParametersAndRunningStatisticsFollowsTheFormula) {
  OneBlock model;
  Ema ema(model.params, 0.5);
  double w = 0, m = 0;
  for (int t = 1; t <= 5; ++t) {
    model.set(static_cast<float>(t * t), static_cast<float>(-t));
    ema.update(model.params);
    const double d = Ema::decay_at(0.5, t);
    w = d * w + (1 - d) * t * t, m = d * m + (1 - d) * -t;
  }
  {
    const EmaInPlace average(ema, model.params);
    EXPECT_NEAR(model.value(), w, 1e-5);
    EXPECT_NEAR(model.buffer(), m, 1e-5);
    EXPECT_NEAR(model.weight.span<float>()[7], w, 1e-5) << "layers compute with it";
  }
  EXPECT_EQ(model.value(), 25) << "and the model is back";
  EXPECT_EQ(model.buffer(), -5);
  EXPECT_EQ(model.weight.span<float>()[7], 25);
}

TEST(EmaOf, ItsStateIsNamedLikeTheModelAndRestartsThere) {
  OneBlock model;
  Ema ema(model.params, 0.5);
  model.set(3, 4);
  ema.update(model.params);
  std::vector<std::string> names;
  for (const NamedTensor& t : ema.state(model.params, "ema.")) names.push_back(t.name);
  EXPECT_THAT(names, ::testing::ElementsAre("ema.weight", "ema.mean", "ema.updates"));
  EXPECT_EQ(*ema.state(model.params, "")[2].tensor.as<i64>(), 1);
  model.set(5, 6);
  ema.restart(model.params);
  EXPECT_EQ(*ema.state(model.params, "")[2].tensor.as<i64>(), 0);
  EXPECT_EQ(ema.state(model.params, "")[0].tensor.span<float>()[0], 5);
}

}  // namespace
}  // namespace gossamer::nn
