// CIFAR's binary files.
#pragma once

#include <string>

#include "gossamer/data/formats/index.h"

namespace gossamer::data {

// CIFAR-10 or, hundred, CIFAR-100. DataError says what is wrong with it.
Index index_cifar(const std::string& path, bool hundred);

}  // namespace gossamer::data
