// A program without run-time types has a module of its own, and its batch norms estimate their
// statistics.
#include <cstdio>

#include "gossamer/nn/layers.h"

using namespace gossamer;

struct Own : nn::Module {
  nn::BatchNorm& norm = add("norm", nn::BatchNorm(2));
  Tensor forward(const Tensor& x) override { return norm(x); }
};

int main() {
  Own net;
  nn::estimate_batch_norm(net, [&] { (void)net(Tensor::full({4, 1, 1, 2}, 3)); });
  net.eval();
  try {
    (void)net(Tensor::zeros({4, 1, 1, 7}));
  } catch (const ShapeError&) {
    std::printf("mean %g\n", net.buffers()[0].tensor.as<float>()[0]);
  }
}
