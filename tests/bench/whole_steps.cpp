// Whole training steps without the program, for tests/bench/instructions: it needs core, nn and
// models only, so that it is soon built for another CPU. One thread, f32, synthetic input.
//     bench_whole_steps MODEL BATCH STEPS [BACKEND]
// MODEL: one of pictures, or llama, with 2 layers 256 wide, texts of 128 ids and 2,048 ids.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/compute.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"
#include "gossamer/models/llama.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/optim.h"

namespace {

using namespace gossamer;

Tensor random_ids(Shape shape, i64 below) {
  Rng rng(1);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.numel()));
  for (auto& id : ids) id = static_cast<std::int32_t>(rng.below(static_cast<std::uint32_t>(below)));
  return Tensor::from(ids, shape);
}

void train_pictures(const std::string& name, i64 batch, int steps) {
  const models::ModelInfo& info = models::info(name, "pictures");
  const auto model = models::make(name);
  FlatParams params(model->parameters(), model->buffers());
  nn::Sgd optimizer(params, {.momentum = 0.9f, .weight_decay = 1e-4f});
  Rng rng(0);
  const Tensor images = nn::normal({batch, info.image_size, info.image_size, 3}, 0, 1, rng),
               labels = random_ids({batch}, info.classes);
  for (int i = 0; i < steps; ++i) {
    params.zero_grad();
    const Tensor loss = cross_entropy(model->forward(images), labels);
    params.backward(loss);
    optimizer.step(0.01f);
    std::printf("loss %.6f\n", static_cast<double>(loss.item()));
  }
}

void train_llama(i64 batch, int steps) {
  const auto model = std::make_unique<models::Llama>(models::LlamaOptions{.layers = 2,
                                                                          .width = 256,
                                                                          .heads = 4,
                                                                          .kv_heads = 2,
                                                                          .head_size = 64,
                                                                          .ff = 688,
                                                                          .positions = 128,
                                                                          .vocabulary = 2048});
  FlatParams params(model->parameters(), model->buffers());
  nn::Adam optimizer(params, {.weight_decay = 0.1f, .decoupled = true});
  const Tensor ids = random_ids({batch, model->positions()}, model->vocabulary());
  for (int i = 0; i < steps; ++i) {
    params.zero_grad();
    const Tensor loss = model->loss(ids, ids);
    params.backward(loss);
    optimizer.step(1e-4f, nullptr, {.clip = 1});
    std::printf("loss %.6f\n", static_cast<double>(loss.item()));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return 2;
  const std::string model = arguments[1];
  const i64 batch = std::atoi(arguments[2]);
  const int steps = std::atoi(arguments[3]);
  if (count > 4) use_cpu_backend(arguments[4]);
  set_compute_threads(1);
  if (model == "llama")
    train_llama(batch, steps);
  else
    train_pictures(model, batch, steps);
}
