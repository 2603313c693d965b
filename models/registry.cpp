// The table of models.
#include "gossamer/models/registry.h"

#include <algorithm>

#include "gossamer/core/text/spelling.h"
#include "gossamer/models/resnet.h"
#include "gossamer/nn/init.h"

namespace gossamer::models {
namespace {

struct Row {
  ModelInfo info;
  ResNetOptions options;
};

ResNetOptions imagenet(std::vector<int> blocks, bool bottleneck) {
  return {.blocks = std::move(blocks), .bottleneck = bottleneck};
}
ResNetOptions cifar(int n) {
  return {.blocks = {n, n, n},
          .widths = {16, 32, 64},
          .imagenet_stem = false,
          .pad_shortcut = true,
          .classes = 10};
}

const std::vector<Row>& table() {
  static const auto& rows = *new std::vector<Row>{
      {{"resnet18", 224, 1000, "ImageNet, basic blocks"}, imagenet({2, 2, 2, 2}, false)},
      {{"resnet34", 224, 1000, "ImageNet, basic blocks"}, imagenet({3, 4, 6, 3}, false)},
      {{"resnet50", 224, 1000, "ImageNet, bottleneck blocks, v1.5"}, imagenet({3, 4, 6, 3}, true)},
      {{"resnet101", 224, 1000, "ImageNet, bottleneck blocks, v1.5"},
       imagenet({3, 4, 23, 3}, true)},
      {{"resnet152", 224, 1000, "ImageNet, bottleneck blocks, v1.5"},
       imagenet({3, 8, 36, 3}, true)},
      {{"resnet18-cifar", 32, 10, "ResNet-18 with a 3x3 stem"},
       {.imagenet_stem = false, .classes = 10}},
      {{"resnet8-cifar", 32, 10, "He et al. 2015, section 4.2, n = 1"}, cifar(1)},
      {{"resnet20-cifar", 32, 10, "He et al. 2015, section 4.2, n = 3"}, cifar(3)},
      {{"resnet32-cifar", 32, 10, "He et al. 2015, section 4.2, n = 5"}, cifar(5)},
      {{"resnet56-cifar", 32, 10, "He et al. 2015, section 4.2, n = 9"}, cifar(9)},
  };
  return rows;
}

const Row& find(const std::string& name) {
  const auto& rows = table();
  const auto at = std::ranges::find(rows, name, [](const Row& r) { return r.info.name; });
  if (at != rows.end()) return *at;
  std::vector<std::string> known;
  for (const Row& row : rows) known.push_back(row.info.name);
  const std::vector<std::string> near = nearest(name, known);
  fail<ConfigError>("unknown model \"", name, "\"; ",
                    near.empty() ? "" : "did you mean " + alternatives(near, "\"") + "? ",
                    "known are ", alternatives(known));
}

}  // namespace

std::unique_ptr<nn::Module> make(const std::string& name, const ModelOptions& options) {
  const Row& row = find(name);
  check<ConfigError>(options.classes >= 0, "model ", name, ": ", options.classes,
                     " classes; wanted at least 1 (0: the model's default)");
  ResNetOptions resnet_options = row.options;
  if (options.classes > 0) resnet_options.classes = options.classes;
  resnet_options.zero_init_residual = options.zero_init_residual;
  nn::seed_initialisation(options.seed);
  return resnet(resnet_options);
}

const ModelInfo& info(const std::string& name) { return find(name).info; }

const std::vector<ModelInfo>& list() {
  static const auto& infos = *new auto([] {
    std::vector<ModelInfo> out;
    for (const Row& row : table()) out.push_back(row.info);
    return out;
  }());
  return infos;
}

std::optional<KnownState> recognise(const std::vector<NamedTensor>& state) {
  std::optional<ResNetOptions> found = resnet_of(state);
  if (!found) return std::nullopt;
  const i64 classes = found->classes;
  for (const Row& row : table()) {
    found->classes = row.options.classes;
    if (*found == row.options) return KnownState{row.info.name, classes};
  }
  return std::nullopt;
}

}  // namespace gossamer::models
