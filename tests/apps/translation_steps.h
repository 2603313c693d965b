// Training steps of a small translation model on batches of the shapes that begin Multi30k, with
// 1,024 ids a side.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "gossamer/apps/train/loop.h"
#include "gossamer/core/random.h"
#include "gossamer/models/transformer.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/optim.h"

namespace gossamer::apps {

struct TranslationSteps {
  TranslationSteps(Device device, float dropout)
      : net(made(device, dropout)),
        params(net.parameters(), net.buffers(), {.separate = true}),
        optimizer(nn::make_optimizer("sgd", params, {})) {
    use_graphs({}, false);
    net.train();
  }
  // Steps are eager before it is called.
  void use_graphs(GraphCapture capture, bool like_gpu) {
    const std::string mode = capture ? "on" : "off";
    gradient = std::make_unique<nn::GradientStep>(
        nn::GradientStep::Parts{.net = net,
                                .params = params,
                                .loss_of =
                                    [this](const nn::StepBatch& b, const Tensor&) {
                                      return net.loss(b.tensors[0], b.tensors[1], b.tensors[2],
                                                      b.tensors[3]);
                                    },
                                .before_backward = nullptr},
        step_graph(mode, std::move(capture)), like_gpu);
  }
  // Returns the loss.
  double step(int k) {
    gradient->compute({batch(k), {}});
    const double loss = gradient->losses().take();
    params.settle_grads();
    optimizer->step(.05f);
    gradient->step_ends();
    return loss;
  }
  static constexpr int kSteps = 12;

  models::Transformer net;
  FlatParams params;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<nn::GradientStep> gradient;

 private:
  static constexpr i64 kIds = 50;
  static models::Transformer made(Device device, float dropout) {
    nn::seed_initialisation(0);
    models::Transformer net({.layers = 1,
                             .width = 32,
                             .ff = 64,
                             .heads = 2,
                             .vocabulary = kIds,
                             .positions = 64,
                             .dropout = dropout});
    net.to(device);
    return net;
  }
  // Sentences of random ids and lengths; no room is given, so the tensors grow one by one.
  static nn::StepBatch batch(int k) {
    constexpr i64 kUsual[] = {42, 24, 24};
    constexpr i64 kFirst[] = {28, 40, 32}, kFits[] = {23, 48, 40}, kGrows[] = {64, 16, 16};
    const i64* const shape = k == 0 ? kFirst : k == 5 ? kFits : k == 6 ? kGrows : kUsual;
    const i64 rows = shape[0];
    Rng rng(static_cast<std::uint64_t>(k));
    const auto ids = [&](const Shape& of, i64 below) {
      Tensor t = Tensor::empty(of, DType::i32);
      for (auto& id : t.span<std::int32_t>())
        id = static_cast<std::int32_t>(rng.below(static_cast<std::uint32_t>(below)));
      return t;
    };
    const Tensor lengths = ids({rows}, shape[1]);
    for (auto& length : lengths.span<std::int32_t>()) ++length;
    return {{ids({rows, shape[1]}, kIds), lengths, ids({rows, shape[2]}, kIds),
             ids({rows, shape[2]}, kIds)},
            {},
            {rows, shape[1], shape[2]}};
  }
};

}  // namespace gossamer::apps
