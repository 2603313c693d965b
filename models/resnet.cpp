// ResNets (He et al. 2015). Comments give the output size for a 224 x 224 image, or 32 x 32 for the
// CIFAR forms.
#include "gossamer/models/resnet.h"

#include <algorithm>
#include <map>

#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/group_norm.h"
#include "gossamer/nn/inference.h"

namespace gossamer::models {
namespace {

using nn::BatchNorm;
using nn::Conv2d;

struct BlockShape {
  i64 in, width, out;
  int stride;
  bool pad_shortcut, zero_scale;
  ResNetNorm norm;
};

// The norm after a convolution. It is a child of the module that it belongs to, of which this is
// one of three forms; the others are null.
struct NormLayer {
  BatchNorm* batch = nullptr;
  nn::GroupNorm* group = nullptr;
  nn::EvoNorm* evo = nullptr;

  // relu(norm(x)), or what takes its place
  Tensor activated(const Tensor& x) const {
    if (batch) return batch->apply(x, true);
    return evo ? evo->forward(x) : relu(group->forward(x));
  }
  // without the nonlinearity; not of an EvoNorm
  Tensor alone(const Tensor& x) const { return batch ? batch->forward(x) : group->forward(x); }
};

// add(layer) makes the norm a child. activates: a nonlinearity follows.
template <class Add>
NormLayer make_norm(ResNetNorm norm, i64 channels, bool activates, bool zero_scale, Add add) {
  if (norm == ResNetNorm::batch)
    return {.batch = &add(BatchNorm(channels, {.zero_scale = zero_scale}))};
  const i64 groups = norm == ResNetNorm::group ? 2 : std::min<i64>(32, channels);
  const nn::GroupNormLayerOptions options{.groups = groups, .zero_scale = zero_scale};
  if (norm == ResNetNorm::evo && activates) return {.evo = &add(nn::EvoNorm(channels, options))};
  return {.group = &add(nn::GroupNorm(channels, options))};
}

// of the norm behind convolution i, as ResNetNorm says
std::string norm_name(ResNetNorm norm, int i) {
  return (norm == ResNetNorm::batch ? "bn" : "norm") + std::to_string(i);
}

// The part that both kinds of block share: the sum at the end.
class Block : public nn::Module {
 protected:
  explicit Block(const BlockShape& s) : shape_(s) {}
  // Called last in the constructors: torchvision registers "downsample" after the convolutions.
  void add_shortcut() {
    if (!changes() || shape_.pad_shortcut) return;
    nn::Sequential down;
    down.push(Conv2d(shape_.in, shape_.out, {.kernel = 1, .stride = shape_.stride}));
    projection_ = &static_cast<Conv2d&>(down[0]);
    projection_norm_ =
        make_norm(shape_.norm, shape_.out, false, false, [&]<class Norm>(Norm norm) -> Norm& {
          return static_cast<Norm&>(down.push(std::move(norm))[1]);
        });
    add("downsample", std::move(down));
  }
  NormLayer add_norm(int i, i64 channels, bool activates = true) {
    return make_norm(shape_.norm, channels, activates, !activates && shape_.zero_scale,
                     [&]<class Norm>(Norm norm) -> Norm& {
                       return add(norm_name(shape_.norm, i), std::move(norm));
                     });
  }
  // relu(norm(y) + shortcut(x))
  Tensor join(const NormLayer& norm, const Tensor& y, const Tensor& x) {
    if (norm.batch && projection_)
      return batch_norm_sum(norm.batch->of(y), projection_norm_.batch->of(projection_->forward(x)));
    const Tensor shortcut = projection_ ? projection_norm_.alone(projection_->forward(x))
                            : changes() ? subsample_pad(x, shape_.stride, shape_.out)
                                        : x;
    if (norm.batch) return norm.batch->apply(y, true, shortcut);
    return relu(gossamer::add(norm.alone(y), shortcut));
  }
  // The same of y = last(before_last), of batch norms.
  int fold_join(nn::FoldedSteps& steps, Conv2d& last, const NormLayer& norm, int before_last,
                int x) const {
    int shortcut = x;
    if (projection_)
      shortcut = steps.conv(x, *projection_, *projection_norm_.batch, false);
    else if (changes())
      shortcut = steps.apply(
          x, [s = shape_](const Tensor& t) { return subsample_pad(t, s.stride, s.out); });
    return steps.conv(before_last, last, *norm.batch, true, shortcut);
  }

 private:
  bool changes() const { return shape_.stride != 1 || shape_.in != shape_.out; }
  BlockShape shape_;
  Conv2d* projection_ = nullptr;
  NormLayer projection_norm_;
};

// 3x3, 3x3.
class Basic : public Block {
 public:
  explicit Basic(const BlockShape& s)
      : Block(s),
        conv1_(
            add("conv1", Conv2d(s.in, s.width, {.kernel = 3, .stride = s.stride, .padding = 1}))),
        bn1_(add_norm(1, s.width)),
        conv2_(add("conv2", Conv2d(s.width, s.out, {.kernel = 3, .padding = 1}))),
        bn2_(add_norm(2, s.out, false)) {
    add_shortcut();
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = bn1_.activated(conv1_(x));
    return join(bn2_, conv2_(y), x);
  }
  int fold(nn::FoldedSteps& steps, int x) override {
    return fold_join(steps, conv2_, bn2_, steps.conv(x, conv1_, *bn1_.batch, true), x);
  }

 private:
  Conv2d& conv1_;
  NormLayer bn1_;
  Conv2d& conv2_;
  NormLayer bn2_;
};

// 1x1, 3x3, 1x1. The 3x3 convolution has the stride ("v1.5", as torchvision). In the paper the
// first 1x1 has it and ignores three of four pixels.
class Bottleneck : public Block {
 public:
  explicit Bottleneck(const BlockShape& s)
      : Block(s),
        conv1_(add("conv1", Conv2d(s.in, s.width, {.kernel = 1}))),
        bn1_(add_norm(1, s.width)),
        conv2_(add("conv2",
                   Conv2d(s.width, s.width, {.kernel = 3, .stride = s.stride, .padding = 1}))),
        bn2_(add_norm(2, s.width)),
        conv3_(add("conv3", Conv2d(s.width, s.out, {.kernel = 1}))),
        bn3_(add_norm(3, s.out, false)) {
    add_shortcut();
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = bn2_.activated(conv2_(bn1_.activated(conv1_(x))));
    return join(bn3_, conv3_(y), x);
  }
  int fold(nn::FoldedSteps& steps, int x) override {
    const int y = steps.conv(steps.conv(x, conv1_, *bn1_.batch, true), conv2_, *bn2_.batch, true);
    return fold_join(steps, conv3_, bn3_, y, x);
  }

 private:
  Conv2d& conv1_;
  NormLayer bn1_;
  Conv2d& conv2_;
  NormLayer bn2_;
  Conv2d& conv3_;
  NormLayer bn3_;
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
        bn1_(make_norm(o.norm, o.widths[0], true, false, [&]<class Norm>(Norm norm) -> Norm& {
          return add(norm_name(o.norm, 1), std::move(norm));
        })) {
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
                               o.zero_init_residual,
                               o.norm};
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
    if (imagenet_stem_ && bn1_.batch) {
      x = batch_norm_pool(bn1_.batch->of(x));
    } else {
      x = bn1_.activated(x);
      if (imagenet_stem_) x = max_pool2d(x, {3, 2, 1});
    }
    // [N, 7, 7, 512 or 2048]
    for (nn::Sequential* layer : layers_) x = layer->forward(x);
    return fc_->forward(global_avg_pool(x));
  }
  int fold(nn::FoldedSteps& steps, int images) override {
    // only a batch norm is constant factors, which a convolution can take in
    if (!bn1_.batch) return Module::fold(steps, images);
    int x = steps.conv(images, conv1_, *bn1_.batch, true);
    if (imagenet_stem_)
      x = steps.apply(x, [](const Tensor& t) { return max_pool2d(t, {3, 2, 1}); });
    for (nn::Sequential* layer : layers_) x = layer->fold(steps, x);
    return fc_->fold(steps, steps.apply(x, global_avg_pool));
  }

 private:
  i64 channels_;
  bool imagenet_stem_;
  Conv2d& conv1_;
  NormLayer bn1_;
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
  o.norm = extent("norm1.v", 1, 0) > 0        ? ResNetNorm::evo
           : extent("norm1.weight", 1, 0) > 0 ? ResNetNorm::group
                                              : ResNetNorm::batch;
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
Row cifar(const char* name, int n, ResNetNorm norm = ResNetNorm::batch) {
  return {{name,
           "He et al. 2015, section 4.2, n = " + std::to_string(n) +
               (norm == ResNetNorm::batch   ? ""
                : norm == ResNetNorm::group ? ", group norm"
                                            : ", EvoNorm-S0"),
           10, 32},
          {.blocks = {n, n, n},
           .widths = {16, 32, 64},
           .imagenet_stem = false,
           .pad_shortcut = true,
           .classes = 10,
           .norm = norm}};
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
      cifar("resnet8-groupnorm-cifar", 1, ResNetNorm::group),
      cifar("resnet20-groupnorm-cifar", 3, ResNetNorm::group),
      cifar("resnet8-evonorm-cifar", 1, ResNetNorm::evo),
      cifar("resnet20-evonorm-cifar", 3, ResNetNorm::evo),
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
