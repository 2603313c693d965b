// VGG (Simonyan and Zisserman 2014), configuration A, in the form that is usual for CIFAR: no
// norms, and one linear layer behind the convolutions. Convolutions have torchvision's names.
#include <algorithm>

#include "gossamer/core/ops.h"
#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/layers.h"

namespace gossamer::models {
namespace {

// ReLU has no parameters, but takes a number among torchvision's layers.
struct Relu : nn::Module {
  Tensor forward(const Tensor& x) override { return relu(x); }
};

// Images [N, H, W, channels] -> logits [N, classes]. H and W are at least 32; what is left of them
// after five poolings is averaged.
class Vgg11 : public nn::Module {
 public:
  Vgg11(i64 channels, i64 classes) : channels_(channels) {
    nn::Sequential layers;
    i64 in = channels;
    for (const auto& [width, convolutions] :
         {std::pair{64, 1}, {128, 1}, {256, 2}, {512, 2}, {512, 2}}) {
      for (int i = 0; i < convolutions; ++i) {
        layers.push(nn::Conv2d(in, width, {.kernel = 3, .padding = 1, .bias = true})).push(Relu());
        in = width;
      }
      layers.push(nn::MaxPool2d({}));
    }
    features_ = &add("features", std::move(layers));
    fc_ = &add("fc", nn::Linear(in, classes));
  }
  Tensor forward(const Tensor& images) override {
    check<ShapeError>(images.rank() == 4 && images.shape(3) == channels_ &&
                          std::min(images.shape(1), images.shape(2)) >= 32,
                      "vgg11: input ", images.shape(), "; wanted images [N, H, W, ", channels_,
                      "] of 32 x 32 pixels or more");
    return fc_->forward(global_avg_pool(features_->forward(images)));
  }

 private:
  i64 channels_;
  nn::Sequential* features_ = nullptr;
  nn::Linear* fc_ = nullptr;
};

constexpr i64 kClasses = 10;

std::unique_ptr<nn::Module> make_vgg(const std::string&, const ModelOptions& options) {
  return std::make_unique<Vgg11>(options.channels, options.classes.value_or(kClasses));
}

std::optional<KnownState> recognise_vgg(const std::vector<NamedTensor>& state) {
  const auto shape_of = [&](const char* name) {
    const auto at = std::ranges::find(state, name, &NamedTensor::name);
    return at == state.end() ? Shape{} : at->tensor.shape();
  };
  // the last convolution of configuration A without norms, and a head on it alone
  if (shape_of("features.18.weight") != Shape{512, 512, 3, 3}) return std::nullopt;
  const Shape head = shape_of("fc.weight");
  if (head.rank() != 2 || head[1] != 512) return std::nullopt;
  return KnownState{"vgg11-cifar", head[0]};
}

}  // namespace

Family vgg_family() {
  return {.name = "vgg",
          .task = "pictures",
          .options = {},
          .models = {{"vgg11-cifar", "VGG-11 without norms, one linear layer", kClasses, 32}},
          .make = make_vgg,
          .weights = picture_weights,
          .recognise = recognise_vgg};
}

}  // namespace gossamer::models
