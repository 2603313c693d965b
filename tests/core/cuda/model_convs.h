// The convolutions of the models as problems for cuDNN, for tests of its plans and of what they
// compute.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gossamer/core/cuda/cudnn_plan.h"

namespace gossamer::testing {

struct Layer {
  std::string name;
  cudnn::ConvProblem problem;  // forward
};

// The shape of a ResNet, as models/registry.cpp makes it.
struct Form {
  const char* model;
  std::vector<i64> blocks, widths;
  bool bottleneck, imagenet, pad_shortcut;
  i64 batch;
};
inline const std::vector<Form>& forms() {
  static const std::vector<Form> list{
      {"resnet18", {2, 2, 2, 2}, {64, 128, 256, 512}, false, true, false, 256},
      {"resnet34", {3, 4, 6, 3}, {64, 128, 256, 512}, false, true, false, 256},
      {"resnet50", {3, 4, 6, 3}, {64, 128, 256, 512}, true, true, false, 256},
      {"resnet18-cifar", {2, 2, 2, 2}, {64, 128, 256, 512}, false, false, false, 128},
      {"resnet8-cifar", {1, 1, 1}, {16, 32, 64}, false, false, true, 128},
      {"resnet20-cifar", {3, 3, 3}, {16, 32, 64}, false, false, true, 128},
  };
  return list;
}
inline const Form& form_of(const std::string& model) {
  return *std::ranges::find(forms(), model, &Form::model);
}

// All convolutions, on 224 x 224 pictures or CIFAR's 32 x 32. ImageNet's stem as the GPU computes
// it in 16 bits: a 4 x 4 convolution of 2 x 2 blocks of pixels, 12 channels padded to 16.
inline std::vector<Layer> layers_of(const Form& form, i64 batch, DType type) {
  std::vector<Layer> layers;
  const auto add = [&](const std::string& name, i64 size, i64 c, i64 k, i64 kernel, i64 stride,
                       i64 before, i64 after) {
    layers.push_back({name,
                      {cudnn::ConvOp::forward, type, batch, size, size, c, k, kernel, kernel,
                       stride, before, after}});
  };
  if (form.imagenet && type == DType::f32)
    add("stem", 224, 3, 64, 7, 2, 3, 3);
  else if (form.imagenet)
    add("stem", 112, 16, 64, 4, 1, 2, 1);
  else
    add("stem", 32, 3, form.widths[0], 3, 1, 1, 1);
  i64 in = form.widths[0], size = form.imagenet ? 56 : 32;
  for (std::size_t stage = 0; stage < form.blocks.size(); ++stage) {
    const i64 width = form.widths[stage], out = form.bottleneck ? 4 * width : width;
    for (i64 b = 0; b < form.blocks[stage]; ++b) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(b) + ".";
      const i64 stride = stage > 0 && b == 0 ? 2 : 1;
      if (form.bottleneck) {
        add(name + "conv1", size, in, width, 1, 1, 0, 0);
        add(name + "conv2", size, width, width, 3, stride, 1, 1);
        add(name + "conv3", size / stride, width, out, 1, 1, 0, 0);
      } else {
        add(name + "conv1", size, in, width, 3, stride, 1, 1);
        add(name + "conv2", size / stride, width, out, 3, 1, 1, 1);
      }
      if ((stride != 1 || in != out) && !form.pad_shortcut)
        add(name + "downsample", size, in, out, 1, stride, 0, 0);
      in = out;
      size /= stride;
    }
  }
  return layers;
}

// Every convolution of the models, forward, its two gradients, and that of the data added to what
// is there: each problem once. what: model and layer.
inline void each_conv_of_the_models(
    DType type, const std::function<void(const std::string& what, const cudnn::ConvProblem&)>& f) {
  using cudnn::ConvOp;
  std::set<std::string> seen;
  const auto once = [&](const std::string& what, const cudnn::ConvProblem& problem) {
    if (seen.insert(problem.key()).second) f(what, problem);
  };
  for (const Form& form : forms())
    for (const Layer& layer : layers_of(form, form.batch, type)) {
      const std::string what = form.model + (" " + layer.name);
      cudnn::ConvProblem problem = layer.problem;
      once(what, problem);
      problem.op = ConvOp::backward_filter;
      once(what, problem);
      // the gradient of the pictures is not needed
      if (layer.name == "stem") continue;
      problem.op = ConvOp::backward_data;
      once(what, problem);
      problem.accumulate = true;
      once(what, problem);
    }
}

}  // namespace gossamer::testing
