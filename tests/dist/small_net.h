// A net of equal layers on random input, the same on all workers; the input is each worker's own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"

namespace gossamer::dist {

struct SmallNet {
  SmallNet(int rank, int layers, int width) : random(5, static_cast<std::uint64_t>(rank)) {
    Rng init(3, 0);
    std::vector<NamedTensor> all;
    for (int i = 0; i < layers; ++i) {
      w.push_back(Tensor::empty({width, width}));
      b.push_back(Tensor::full({width}, .1f));
      for (float& v : w.back().span<float>()) v = .3f * init.normal();
      all.push_back({std::to_string(i) + ".w", w.back()});
      all.push_back({std::to_string(i) + ".b", b.back()});
    }
    params = std::make_unique<FlatParams>(all);
  }
  // halfway: what becomes of the values between the two halves of the layers.
  Tensor loss(const std::function<Tensor(const Tensor&)>& halfway = nullptr) {
    Tensor x = Tensor::empty({8, w[0].shape(0)});
    for (float& v : x.span<float>()) v = random.normal();
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (halfway && i == w.size() / 2) x = halfway(x);
      x = relu(linear(x, w[i], b[i]));
    }
    return mean(x * x);
  }
  std::vector<Tensor> w, b;
  Rng random;
  std::unique_ptr<FlatParams> params;
};

}  // namespace gossamer::dist
