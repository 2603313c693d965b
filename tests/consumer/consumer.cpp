// Uses each library once, as somebody else's program: a model, its gradient, a picture, a group of
// one worker.
#include <cstdio>

#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/data/codec/image.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/optim.h"

int main() {
  using namespace gossamer;
  const auto model = models::make("resnet8-cifar", {.classes = 2});
  FlatParams params(model->parameters(), model->buffers());
  nn::Sgd sgd(params);
  dist::MethodOptions options;
  options.batch = 4;
  const auto group = dist::join(dist::launch_info());
  const auto method = dist::make_method("a2cid2", params, sgd, *group,
                                        dist::make_graph("ring", group->size()), options);
  const Tensor images = Tensor::full({4, 32, 32, 3}, .5f), labels = Tensor::zeros({4}, DType::i32);
  for (int step = 0; step < 2; ++step) {
    params.zero_grad();
    const Tensor loss = cross_entropy(model->forward(images), labels);
    loss.backward();
    method->step(.01);
    std::printf("loss %.3f\n", loss.item());
  }
  method->finish();
  try {
    (void)data::decode({}, "empty.jpg");
  } catch (const Error& e) {
    std::printf("%s\n", e.what());
  }
}
