// Says what is on a picture, and holds nothing of the library but inference:
//   classify MODEL PICTURE
#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>

#include "gossamer/core/ops.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/models/model_file.h"
#include "gossamer/nn/inference.h"

using namespace gossamer;

static void classify(const char* file, const char* picture) {
  const models::OpenedModel model = models::open(file);
  const nn::Inference net(*model.net);
  const Tensor image = data::read_image(picture, model.pictures.resize, model.pictures.size);
  const Tensor p = softmax(net(model.pictures(image)));
  const std::span<const float> chance = p.span<float>();
  std::vector<std::size_t> order(chance.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::greater(), [&](std::size_t k) { return chance[k]; });
  order.resize(std::min<std::size_t>(order.size(), 3));
  for (const std::size_t k : order)
    std::printf("%5.1f %%  %s\n", 100 * chance[k], model.classes[k].c_str());
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  try {
    classify(arguments[1], arguments[2]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
