// ResNets (He et al. 2015) for ImageNet ("v1.5": the 3x3 convolution of a bottleneck has the
// stride) and for CIFAR. Parameters have torchvision's names.
// Threads: any; the network is a Module (nn/module.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/nn/layers.h"

namespace gossamer::models {

// What follows a convolution.
//   batch   batch norm, then ReLU
//   group   group norm in two groups (Wu and He 2018), then ReLU
//   evo     EvoNorm-S0 (Liu et al. 2020) in place of both; before the sum of a block, where no ReLU
//           follows the norm, group norm (its authors' code has a gain and an offset alone there).
//           Groups: 32, or each channel of fewer
// The last two need no batch and have no running statistics. Names are torchvision's, "bn1" and so
// on; theirs are "norm1" and so on.
enum class ResNetNorm { batch, group, evo };

struct ResNetOptions {
  std::vector<int> blocks{2, 2, 2, 2};
  std::vector<int> widths{64, 128, 256, 512};
  bool bottleneck = false;    // 1x1, 3x3, 1x1 with expansion 4
  bool imagenet_stem = true;  // 7x7/2 and max-pool; else 3x3/1
  // option A: subsample and zero-pad instead of 1x1 convolution (CIFAR 20/32/56)
  bool pad_shortcut = false;
  i64 channels = 3;  // of the images
  i64 classes = 1000;
  ResNetNorm norm = ResNetNorm::batch;
  // last norm of each block starts at 0 (Goyal et al. 2017)
  bool zero_init_residual = false;
  bool operator==(const ResNetOptions&) const = default;
};

// Images [N, H, W, channels] -> logits [N, classes].
std::unique_ptr<nn::Module> resnet(const ResNetOptions&);

// The options of the ResNet whose state dict this is, by names and shapes (torch's layouts: OIHW);
// nullopt: of none. Without "fc.weight", classes is 0.
std::optional<ResNetOptions> resnet_of(const std::vector<NamedTensor>& state);

}  // namespace gossamer::models
