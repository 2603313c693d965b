// A ResNet small enough to train on one core in a moment, with every kind of block and end: trained
// for some steps, and compared.
#pragma once

#include <cmath>

#include <gtest/gtest.h>

#include "core/ops/op_cases.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/flat.h"
#include "gossamer/models/resnet.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/optim.h"

namespace gossamer::testing {

inline Tensor random_images() {
  Tensor x = Tensor::empty({6, 64, 64, 3});
  Rng rng(4);
  for (float& v : x.span<float>()) v = rng.normal();
  return x;
}

// Every kind of block and end: projection with and without stride, identity, stem with pooling,
// average.
inline models::ResNetOptions small_resnet(bool bottleneck) {
  return {.blocks = {2, 2}, .widths = {8, 16}, .bottleneck = bottleneck, .classes = 7};
}

struct Trained {
  std::vector<double> losses;
  Tensor logits, grads, values, buffers;  // grads: of the first step
};

inline Tensor here(const Tensor& t) {
  return (t.device().is_cpu() ? t.clone() : t.to(Device::cpu())).to(DType::f32);
}

inline Trained train_small(Device device, bool bottleneck, DType type, int steps) {
  nn::seed_initialisation(3);
  const auto model = models::resnet(small_resnet(bottleneck));
  model->to(device);
  FlatParams params(model->parameters(), model->buffers(),
                    {.compute = type, .loss_scale = type == DType::f16 ? 1024.0f : 1.0f});
  nn::Sgd sgd(params, {.momentum = 0.9f, .weight_decay = 1e-4f});
  const Tensor x = random_images().to(type).to(device), labels = labels_of(6, 7).to(device);
  Trained out;
  for (int step = 0; step < steps; ++step) {
    params.zero_grad();
    const Tensor logits = (*model)(x),
                 loss = cross_entropy(cast(logits, DType::f32), labels, {.label_smoothing = 0.1f});
    params.backward(loss);
    params.settle_grads();
    sgd.begin_step();
    if (step == 0)
      out.logits = here(logits), out.grads = here(params.grads()),
      scale(out.grads, 1 / params.loss_scale());
    out.losses.push_back(static_cast<double>(loss.item()));
    sgd.update({}, 0.05f);
  }
  out.values = here(params.values());
  out.buffers = here(params.buffers());
  EXPECT_EQ(params.skipped_steps(), 0);
  EXPECT_EQ(Node::live(), 0);
  return out;
}

// ‖a - b‖ / ‖b‖
inline double distance(const Tensor& a, const Tensor& b) {
  double gap = 0, size = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(b.numel()); ++i) {
    const auto x = static_cast<double>(a.span<float>()[i]),
               y = static_cast<double>(b.span<float>()[i]);
    gap += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(gap / size);
}

}  // namespace gossamer::testing
