// The program of nn/README.md, word for word below: a small network learns which half of an
// image is brighter.
#include <cstdio>

#include "gossamer/core/flat.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/optim.h"
using namespace gossamer;

struct Net : nn::Module {
  nn::Conv2d& conv = add("conv", nn::Conv2d(3, 8, {.kernel = 3, .stride = 2, .padding = 1}));
  nn::BatchNorm& norm = add("norm", nn::BatchNorm(8));
  nn::Linear& head = add("head", nn::Linear(8 * 4 * 4, 2));
  Tensor forward(const Tensor& x) override {
    return head(avg_pool2d(norm.apply(conv(x), true)).reshape({-1, 8 * 4 * 4}));
  }
};

int main() {
  Net net;
  FlatParams params(net.parameters(), net.buffers());
  nn::Sgd sgd(params, {.momentum = 0.9f, .weight_decay = 1e-4f});
  Rng rng(1);
  for (int step = 0; step <= 50; ++step) {
    Tensor images = nn::normal({32, 16, 16, 3}, 0, 1, rng),
           labels = Tensor::zeros({32}, DType::i32);
    for (int i = 0; i < 32; ++i) {
      labels.as<std::int32_t>()[i] = i % 2;
      const Tensor image = images.slice(i, i + 1);
      for (float& pixel : image.span<float>().subspan(i % 2 * 384, 384)) pixel += 0.2f;
    }
    Tensor loss = cross_entropy(net(images), labels);
    params.zero_grad();
    loss.backward();
    sgd.step(0.05f);
    if (step % 10 == 0) std::printf("step %2d  loss %.3f\n", step, loss.item());
  }
}
