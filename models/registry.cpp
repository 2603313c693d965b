// The table of models.
#include "gossamer/models/registry.h"

#include <algorithm>
#include <numeric>

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
  static const std::vector<Row> rows{
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

// Levenshtein distance: for "did you mean".
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

const Row& find(const std::string& name) {
  const auto& rows = table();
  const auto at = std::ranges::find(rows, name, [](const Row& r) { return r.info.name; });
  if (at != rows.end()) return *at;
  const auto nearest =
      std::ranges::min_element(rows, {}, [&](const Row& r) { return distance(name, r.info.name); });
  std::string known;
  for (const Row& row : rows) known += (known.empty() ? "" : ", ") + row.info.name;
  fail<ConfigError>("unknown model \"", name, "\"; did you mean \"", nearest->info.name,
                    "\"? Known: ", known);
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
  static const std::vector<ModelInfo> infos = [] {
    std::vector<ModelInfo> out;
    for (const Row& row : table()) out.push_back(row.info);
    return out;
  }();
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
