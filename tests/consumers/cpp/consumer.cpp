// Uses each library once, as somebody else's program: a model, its gradient, a picture, a group of
// one worker, a cluster of two. MODEL is written and opened.
//   consumer MODEL
#include <cstdio>
#include <thread>

#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/data/codec/image.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/optim.h"

using namespace gossamer;

// The decentralized loop of the README.
static double train(dist::Group& group) {
  const auto model = models::make("resnet8-cifar", {.classes = 2});
  FlatParams params(model->parameters(), model->buffers());
  nn::Sgd sgd(params);
  dist::MethodOptions options;
  options.batch = 4;
  options.total_samples = 8.0 * group.size();
  const auto method = dist::make_method("a2cid2", params, sgd, group,
                                        dist::make_graph("ring", group.size()), options);
  const Tensor images = Tensor::full({4, 32, 32, 3}, .5f), labels = Tensor::zeros({4}, DType::i32);
  double last = 0;
  while (!method->done()) {
    params.zero_grad();
    const Tensor loss = cross_entropy(model->forward(images), labels);
    loss.backward();
    method->step(.01);
    last = loss.item();
  }
  method->finish();
  return last;
}

int main(int, char** arguments) {
  const auto alone = dist::join(dist::launch_info());
  std::printf("loss %.3f\n", train(*alone));
  dist::LocalCluster cluster(2);
  double losses[2] = {};
  std::thread other([&] { losses[1] = train(cluster.group(1)); });
  losses[0] = train(cluster.group(0));
  other.join();
  std::printf("losses of two workers %.3f %.3f\n", losses[0], losses[1]);
  nn::save(arguments[1], *models::make("resnet8-cifar"));
  std::printf("%s\n", models::open(arguments[1]).name.c_str());
  try {
    (void)data::decode({}, "empty.jpg");
  } catch (const Error& e) {
    std::printf("%s\n", e.what());
  }
}
