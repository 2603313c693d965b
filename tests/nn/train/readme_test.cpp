// Runs the code block of nn/train/README.md.
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/random.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/optim.h"
#include "gossamer/nn/train/classification.h"
#include "gossamer/nn/train/gradient_step.h"
#include "gossamer/nn/train/train_state.h"

namespace gossamer {
namespace {

// Class i % 2 is a little brighter.
nn::DrawnBatch batch_at(i64 step) {
  Rng rng(static_cast<std::uint64_t>(step));
  Tensor images = nn::normal({16, 12}, 0, 1, rng), labels = Tensor::empty({16}, DType::i32);
  for (i64 i = 0; i < 16; ++i) {
    labels.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % 2);
    for (float& pixel : images.slice(i, i + 1).span<float>()) pixel += static_cast<float>(i % 2);
  }
  return {.batch = {.tensors = {images, labels}, .shape = images.shape()}};
}

// The scores of the moving average: loss, how many of 16 are right.
Tensor train(const std::filesystem::path& file, i64 until) {
  nn::seed_initialisation(5);
  nn::Sequential net;
  net.push(nn::BatchNorm(12)).push(nn::Linear(12, 2));

  FlatParams params(net.parameters(), net.buffers());
  nn::Sgd sgd(params, {.momentum = 0.9f});
  nn::Ema ema(params, 0.9);
  const nn::TrainState state{net.buffers(), params, sgd, &ema};
  nn::GradientStep gradient({.net = net,
                             .params = params,
                             .loss_of =
                                 [&](const nn::StepBatch& batch, const Tensor&) {
                                   return cross_entropy(net(batch.tensors[0]), batch.tensors[1]);
                                 },
                             .batches = 2});
  nn::Position at;
  if (std::filesystem::exists(file)) at = nn::load_state(file, state);
  net.train();
  for (; at.step < until; ++at.step) {
    if (gradient.compute(batch_at(at.step))) {
      sgd.step(0.05f);
      ema.update(params);
    }
    gradient.step_ends();
  }
  nn::save_state(file, state, at);

  const nn::EmaInPlace average(ema, params);
  const NoGrad no_grad;
  net.eval();
  const nn::DrawnBatch unseen = batch_at(1000);
  return nn::classification_scores(net(unseen.batch.tensors[0]), unseen.batch.tensors[1], 1);
}

TEST(TrainReadme, ARunInTwoPartsIsOneRun) {
  std::string pattern = (std::filesystem::temp_directory_path() / "gossamer-train-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path folder = pattern;
  const Tensor whole = train(folder / "whole", 40);
  (void)train(folder / "parts", 20);
  const Tensor parts = train(folder / "parts", 40);
  EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.bytes()), 0);
  EXPECT_GT(whole.as<float>()[1], 12) << "it has learnt something";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gossamer
