// ResNets (He et al. 2015). Comments give the output size for a 224 x 224 image, or 32 x 32 for the
// CIFAR forms.
#include "gossamer/models/resnet.h"

#include <algorithm>
#include <map>

#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/inference.h"

namespace gossamer::models {
namespace {

using nn::BatchNorm;
using nn::Conv2d;

struct BlockShape {
  i64 in, width, out;
  int stride;
  bool pad_shortcut, zero_scale;
};

// The part that both kinds of block share: the sum at the end.
class Block : public nn::Module {
 protected:
  explicit Block(const BlockShape& s) : shape_(s) {}
  // Called last in the constructors: torchvision registers "downsample" after the convolutions.
  void add_shortcut() {
    if (!changes() || shape_.pad_shortcut) return;
    nn::Sequential down;
    down.push(Conv2d(shape_.in, shape_.out, {.kernel = 1, .stride = shape_.stride}))
        .push(BatchNorm(shape_.out));
    projection_ = &static_cast<Conv2d&>(down[0]);
    projection_norm_ = &static_cast<BatchNorm&>(down[1]);
    add("downsample", std::move(down));
  }
  // relu(bn(y) + shortcut(x))
  Tensor join(BatchNorm& bn, const Tensor& y, const Tensor& x) {
    if (projection_) return batch_norm_sum(bn.of(y), projection_norm_->of(projection_->forward(x)));
    return bn.apply(y, true, changes() ? subsample_pad(x, shape_.stride, shape_.out) : x);
  }
  // The same of y = last(before_last).
  int fold_join(nn::FoldedSteps& steps, Conv2d& last, const BatchNorm& bn, int before_last,
                int x) const {
    int shortcut = x;
    if (projection_)
      shortcut = steps.conv(x, *projection_, *projection_norm_, false);
    else if (changes())
      shortcut = steps.apply(
          x, [s = shape_](const Tensor& t) { return subsample_pad(t, s.stride, s.out); });
    return steps.conv(before_last, last, bn, true, shortcut);
  }

 private:
  bool changes() const { return shape_.stride != 1 || shape_.in != shape_.out; }
  BlockShape shape_;
  Conv2d* projection_ = nullptr;
  BatchNorm* projection_norm_ = nullptr;
};

// 3x3, 3x3.
class Basic : public Block {
 public:
  explicit Basic(const BlockShape& s)
      : Block(s),
        conv1_(
            add("conv1", Conv2d(s.in, s.width, {.kernel = 3, .stride = s.stride, .padding = 1}))),
        bn1_(add("bn1", BatchNorm(s.width))),
        conv2_(add("conv2", Conv2d(s.width, s.out, {.kernel = 3, .padding = 1}))),
        bn2_(add("bn2", BatchNorm(s.out, {.zero_scale = s.zero_scale}))) {
    add_shortcut();
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = bn1_.apply(conv1_(x), true);
    return join(bn2_, conv2_(y), x);
  }
  int fold(nn::FoldedSteps& steps, int x) override {
    return fold_join(steps, conv2_, bn2_, steps.conv(x, conv1_, bn1_, true), x);
  }

 private:
  Conv2d& conv1_;
  BatchNorm& bn1_;
  Conv2d& conv2_;
  BatchNorm& bn2_;
};

// 1x1, 3x3, 1x1. The 3x3 convolution has the stride ("v1.5", as torchvision). In the paper the
// first 1x1 has it and ignores three of four pixels.
class Bottleneck : public Block {
 public:
  explicit Bottleneck(const BlockShape& s)
      : Block(s),
        conv1_(add("conv1", Conv2d(s.in, s.width, {.kernel = 1}))),
        bn1_(add("bn1", BatchNorm(s.width))),
        conv2_(add("conv2",
                   Conv2d(s.width, s.width, {.kernel = 3, .stride = s.stride, .padding = 1}))),
        bn2_(add("bn2", BatchNorm(s.width))),
        conv3_(add("conv3", Conv2d(s.width, s.out, {.kernel = 1}))),
        bn3_(add("bn3", BatchNorm(s.out, {.zero_scale = s.zero_scale}))) {
    add_shortcut();
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = bn2_.apply(conv2_(bn1_.apply(conv1_(x), true)), true);
    return join(bn3_, conv3_(y), x);
  }
  int fold(nn::FoldedSteps& steps, int x) override {
    const int y = steps.conv(steps.conv(x, conv1_, bn1_, true), conv2_, bn2_, true);
    return fold_join(steps, conv3_, bn3_, y, x);
  }

 private:
  Conv2d& conv1_;
  BatchNorm& bn1_;
  Conv2d& conv2_;
  BatchNorm& bn2_;
  Conv2d& conv3_;
  BatchNorm& bn3_;
};

nn::Conv2dOptions stem(const ResNetOptions& o) {
  if (o.imagenet_stem) return {.kernel = 7, .stride = 2, .padding = 3};
  return {.kernel = 3, .stride = 1, .padding = 1};
}

class ResNet : public nn::Module {
 public:
  explicit ResNet(const ResNetOptions& o)
      : channels_(o.channels),
        imagenet_stem_(o.imagenet_stem),
        conv1_(add("conv1", Conv2d(o.channels, o.widths[0], stem(o)))),
        bn1_(add("bn1", BatchNorm(o.widths[0]))) {
    const i64 expansion = o.bottleneck ? 4 : 1;
    i64 in = o.widths[0];
    for (std::size_t stage = 0; stage < o.blocks.size(); ++stage) {
      nn::Sequential layer;
      for (int i = 0; i < o.blocks[stage]; ++i) {
        const i64 width = o.widths[stage];
        const BlockShape shape{in,
                               width,
                               width * expansion,
                               stage > 0 && i == 0 ? 2 : 1,
                               o.pad_shortcut,
                               o.zero_init_residual};
        if (o.bottleneck)
          layer.push(Bottleneck(shape));
        else
          layer.push(Basic(shape));
        in = shape.out;
      }
      layers_.push_back(&add("layer" + std::to_string(stage + 1), std::move(layer)));
    }
    fc_ = &add("fc", nn::Linear(in, o.classes));
  }

  Tensor forward(const Tensor& images) override {
    check<ShapeError>(images.rank() == 4 && images.shape(3) == channels_, "resnet: input ",
                      images.shape(), "; wanted images [N, H, W, ", channels_, "]");
    // [N, 112, 112, 64]; CIFAR [N, 32, 32, widths[0]]
    Tensor x = conv1_(images);
    // [N, 56, 56, 64];   CIFAR as before
    x = imagenet_stem_ ? batch_norm_pool(bn1_.of(x)) : bn1_.apply(x, true);
    // [N, 7, 7, 512 or 2048]
    for (nn::Sequential* layer : layers_) x = layer->forward(x);
    return fc_->forward(global_avg_pool(x));
  }
  int fold(nn::FoldedSteps& steps, int images) override {
    int x = steps.conv(images, conv1_, bn1_, true);
    if (imagenet_stem_)
      x = steps.apply(x, [](const Tensor& t) { return max_pool2d(t, {3, 2, 1}); });
    for (nn::Sequential* layer : layers_) x = layer->fold(steps, x);
    return fc_->fold(steps, steps.apply(x, global_avg_pool));
  }

 private:
  i64 channels_;
  bool imagenet_stem_;
  Conv2d& conv1_;
  BatchNorm& bn1_;
  std::vector<nn::Sequential*> layers_;
  nn::Linear* fc_ = nullptr;
};

}  // namespace

std::unique_ptr<nn::Module> resnet(const ResNetOptions& options) {
  check<ConfigError>(!options.blocks.empty() && options.blocks.size() == options.widths.size(),
                     "resnet: ", options.blocks.size(), " block counts and ", options.widths.size(),
                     " widths; one of each per stage");
  for (std::size_t i = 0; i < options.blocks.size(); ++i)
    check<ConfigError>(options.blocks[i] > 0 && options.widths[i] > 0, "resnet: stage ", i + 1,
                       " has ", options.blocks[i], " blocks of width ", options.widths[i],
                       "; both must be positive");
  check<ConfigError>(options.classes > 0, "resnet: ", options.classes,
                     " classes; wanted at least 1");
  return std::make_unique<ResNet>(options);
}

std::optional<ResNetOptions> resnet_of(const std::vector<NamedTensor>& state) {
  std::map<std::string, Shape> shapes;
  for (const NamedTensor& t : state) shapes.emplace(t.name, t.tensor.shape());
  // Extent d of a tensor; 0 if there is none of this name and rank.
  const auto extent = [&](const std::string& name, int rank, int d) -> i64 {
    const auto at = shapes.find(name);
    return at != shapes.end() && at->second.rank() == rank ? at->second[d] : 0;
  };
  ResNetOptions o{.blocks = {}, .widths = {}};
  for (int stage = 1;; ++stage) {
    const std::string layer = "layer" + std::to_string(stage) + ".";
    int blocks = 0;
    while (extent(layer + std::to_string(blocks) + ".conv1.weight", 4, 0) > 0) ++blocks;
    if (blocks == 0) break;
    o.blocks.push_back(blocks);
    o.widths.push_back(static_cast<int>(extent(layer + "0.conv1.weight", 4, 0)));
  }
  if (o.blocks.empty()) return std::nullopt;
  o.bottleneck = extent("layer1.0.conv3.weight", 4, 0) > 0;
  o.imagenet_stem = extent("conv1.weight", 4, 2) == 7;
  o.pad_shortcut = extent("layer2.0.downsample.0.weight", 4, 0) == 0;
  o.channels = extent("conv1.weight", 4, 1);
  o.classes = extent("fc.weight", 2, 0);
  return o;
}

// --- the family

namespace {

struct Row {
  ModelInfo info;
  ResNetOptions options;
};

Row imagenet(const char* name, std::vector<int> blocks, bool bottleneck) {
  return {{name, bottleneck ? "ImageNet, bottleneck blocks, v1.5" : "ImageNet, basic blocks", 1000,
           224},
          {.blocks = std::move(blocks), .bottleneck = bottleneck}};
}
Row cifar(const char* name, int n) {
  return {{name, "He et al. 2015, section 4.2, n = " + std::to_string(n), 10, 32},
          {.blocks = {n, n, n},
           .widths = {16, 32, 64},
           .imagenet_stem = false,
           .pad_shortcut = true,
           .classes = 10}};
}

const std::vector<Row>& table() {
  static const auto& rows = *new std::vector<Row>{
      imagenet("resnet18", {2, 2, 2, 2}, false),
      imagenet("resnet34", {3, 4, 6, 3}, false),
      imagenet("resnet50", {3, 4, 6, 3}, true),
      imagenet("resnet101", {3, 4, 23, 3}, true),
      imagenet("resnet152", {3, 8, 36, 3}, true),
      {{"resnet18-cifar", "ResNet-18 with a 3x3 stem", 10, 32},
       {.imagenet_stem = false, .classes = 10}},
      cifar("resnet8-cifar", 1),
      cifar("resnet20-cifar", 3),
      cifar("resnet32-cifar", 5),
      cifar("resnet56-cifar", 9),
  };
  return rows;
}

std::unique_ptr<nn::Module> make_resnet(const std::string& name, const ModelOptions& options) {
  ResNetOptions o =
      std::ranges::find(table(), name, [](const Row& r) { return r.info.name; })->options;
  o.classes = options.classes.value_or(o.classes);
  o.channels = options.channels;
  o.zero_init_residual = options.zero_init_residual;
  return resnet(o);
}

std::optional<KnownState> recognise_resnet(const std::vector<NamedTensor>& state) {
  std::optional<ResNetOptions> found = resnet_of(state);
  if (!found) return std::nullopt;
  const i64 classes = found->classes;
  for (const Row& row : table()) {
    found->channels = row.options.channels;
    found->classes = row.options.classes;
    if (*found == row.options) return KnownState{row.info.name, classes};
  }
  return std::nullopt;
}

}  // namespace

Family resnet_family() {
  Family out{.name = "resnet",
             .task = "pictures",
             .options = {"zero_init_residual"},
             .models = {},
             .make = make_resnet,
             .weights = picture_weights,
             .recognise = recognise_resnet};
  for (const Row& row : table()) out.models.push_back(row.info);
  return out;
}

}  // namespace gossamer::models
