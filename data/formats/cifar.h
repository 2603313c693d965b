// CIFAR's binary files.
#pragma once

#include <string>
#include <vector>

#include "gossamer/data/formats/index.h"

namespace gossamer::data {

constexpr PixelLayout kCifarLayout{32, 32, 1, 32, 32 * 32};  // ImageNet-32 too

// The classes in the order of their labels: of batches.meta.txt or fine_label_names.txt beside
// `path`, if their order is that of the names; else the known ones of CIFAR-10, or numbers.
std::vector<std::string> cifar_classes(const std::string& path, bool hundred);

}  // namespace gossamer::data
